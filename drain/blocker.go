package drain

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Blocker is a group of Pods of one Node that are blocked for the same reason.
type Blocker struct {
	Node    string
	Reason  Reason
	Budgets []types.NamespacedName // the budgets that block, sorted; empty when none does
	Pods    []PodRef               // the first pods, sorted
	Count   int                    // the number of all pods
	// Since is when Pods of the Node were first blocked by this Key. Only drain/runner sets it.
	Since   time.Time
	Message string
	// Remedy is what a person can do; only [Plan.Permanent] sets it.
	Remedy string `json:",omitempty"`
}

// Key identifies the cause of a blocker: equal keys in two plans mean the same cause. It does not contain the message, which may be the
// text of an error that differs each time.
func (b Blocker) Key() string {
	parts := append(make([]string, 0, 2+len(b.Budgets)), b.Node, string(b.Reason))
	for _, name := range b.Budgets {
		parts = append(parts, name.String())
	}
	return strings.Join(parts, "\x00")
}

// Blockers groups the blocked Pods by Node, reason and budgets (without a budget: by message), sorted. Each group names at most three
// Pods. Pods that are terminating, requested, or wait for others are not blockers.
func (p Plan) Blockers() []Blocker {
	groups := blockerGroups{}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if group(d) == groupBlocked {
			groups.add(blockerOf(d), d)
		}
	}
	return groups.sorted(maxNames)
}

// blockerOf returns the blocker of a Pod, without the Pod.
func blockerOf(d *Decision) Blocker {
	b := Blocker{Reason: d.Reason, Message: d.Message}
	if aboutBudgets(d.Reason) {
		b.Budgets = d.Budgets
	}
	return b
}

// blockerGroups collects the Pods of each blocker, by its key and, without a budget, its message.
type blockerGroups map[string]*Blocker

func (g blockerGroups) add(b Blocker, d *Decision) {
	b.Node = d.Node
	key := b.Key()
	if len(b.Budgets) == 0 {
		key += "\x00" + b.Message
	}
	if g[key] == nil {
		g[key] = &b
	}
	g[key].Pods = append(g[key].Pods, RefOf(d.Pod))
}

// sorted returns the groups with at most maxPods Pods each.
func (g blockerGroups) sorted(maxPods int) []Blocker {
	out := make([]Blocker, 0, len(g))
	for _, key := range slices.Sorted(maps.Keys(g)) {
		b := *g[key]
		b.Count = len(b.Pods)
		slices.SortFunc(b.Pods, comparePodRefs)
		b.Pods = slices.Clip(b.Pods[:min(maxPods, len(b.Pods))])
		out = append(out, b)
	}
	return out
}

func aboutBudgets(r Reason) bool {
	return slices.Contains([]Reason{ReasonBudgetExhausted, ReasonBudgetStale, ReasonBudgetNeverAllows, ReasonMultipleBudgets}, r)
}

func comparePodRefs(a, b PodRef) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// Permanent returns the permanent obstacles of the drain, as far as the plan can detect them before the first eviction. Pods of later
// orders count too. Groups are sorted like [Plan.Blockers], and name all their Pods.
//
//   - Budgets that can never allow an eviction of the Pods they cover, except unready Pods that may be evicted, and Pods that two budgets
//     select: the API server refuses to evict these (k/k #75957). A webhook may remove such Pods when their eviction is requested, as
//     KubeVirt's does, which a plan cannot detect.
//   - Pods that are or will be terminating and have finalizers, except those of Kubernetes' own controllers. Their object stays until the
//     finalizers are removed; a plan cannot detect whether their controller still runs.
//   - Pods that a rule denies, and Pods with restartPolicy Always whose completion is waited for.
//
// Budgets that allow no eviction only at the moment are in Blockers.
func (p Plan) Permanent() []Blocker {
	groups := blockerGroups{}
	for i := range p.Decisions {
		p.obstacles(&p.Decisions[i], groups)
	}
	return groups.sorted(math.MaxInt)
}

func (p Plan) obstacles(d *Decision, groups blockerGroups) {
	switch {
	case d.Action == Ignore:
		return
	case d.Intended == Evict && group(d) != groupTerminating:
		p.refusal(d, groups)
	case d.Action == Deny:
		b := blockerOf(d)
		b.Remedy = "change the Pod, or the rules of the drain"
		groups.add(b, d)
	case (d.Reason == ReasonWaitCompleted || d.Reason == ReasonWaitCompletedLater) && neverCompletes(d.Pod):
		groups.add(Blocker{Reason: ReasonNeverCompletes, Message: "waiting for completion of a Pod with restartPolicy Always",
			Remedy: "delete the Pod when it may go, or let it be evicted: change its drain label or the MachineDrainRule"}, d)
	}
	if names := foreignFinalizers(d.Pod); len(names) > 0 && (d.Intended.leaves() || d.Pod.DeletionTimestamp != nil) {
		groups.add(Blocker{Reason: ReasonFinalizer,
			Message: "finalizers keep the Pod when its containers have ended: " + strings.Join(names, ", "),
			Remedy:  "their controller has to remove them; remove them by hand if it no longer runs"}, d)
	}
}

// refusal adds a Pod whose eviction is permanently refused because of budgets.
func (p Plan) refusal(d *Decision, groups blockerGroups) {
	only, refusal := p.budgets.judge(d.Pod)
	b := Blocker{Reason: refusal, Budgets: appendNames(nil, p.budgets[d.Pod])}
	switch refusal {
	case ReasonMultipleBudgets:
		b.Message = multipleBudgetsMessage(p.budgets[d.Pod])
		b.Remedy = "let one budget select the Pod: change the selectors or the Pod's labels, or delete the others"
	case ReasonBudgetNeverAllows:
		b.Message, b.Remedy = neverAllowsMessage(only), openBudget
	default:
		return
	}
	groups.add(b, d)
}

// foreignFinalizers returns the finalizers that are not those of Kubernetes' own controllers, sorted.
func foreignFinalizers(pod *corev1.Pod) []string {
	var foreign []string
	for _, name := range pod.Finalizers {
		switch name {
		case batchv1.JobTrackingFinalizer, metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		default:
			foreign = append(foreign, name)
		}
	}
	slices.Sort(foreign)
	return foreign
}

// Warnings returns what is lost when the plan is carried out: data in emptyDir volumes, and unfinished Pods that no controller creates
// again; and the warnings of rules (see Verdict). Pods that are terminating or stay on the Node have no warnings. Warnings are grouped by
// Node, reason and message, and sorted; each names at most three Pods. Warnings do not block and do not change a plan. The messages are
// those of Cluster API.
func (p Plan) Warnings() []Blocker {
	groups := blockerGroups{}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if !d.Intended.leaves() {
			continue
		}
		for _, text := range d.Warnings {
			groups.add(Blocker{Reason: ReasonRuleWarning, Message: text}, d)
		}
		if finished(d.Pod) {
			continue
		}
		if hasLocalData(d.Pod) && !slices.Contains(d.Warnings, localStorageWarning) {
			groups.add(Blocker{Reason: ReasonLocalData, Message: "evicting Pod with local storage"}, d)
		}
		if metav1.GetControllerOfNoCopy(d.Pod) == nil && !slices.Contains(d.Warnings, unmanagedWarning) {
			groups.add(Blocker{Reason: ReasonUnmanaged, Message: "evicting Pod that has no controller"}, d)
		}
	}
	return groups.sorted(maxNames)
}

func hasLocalData(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
}
