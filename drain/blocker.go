package drain

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Blocker is a group of Pods of one Node that cannot leave for the same reason.
type Blocker struct {
	Node    string
	Reason  Reason
	Budgets []types.NamespacedName // the budgets in the way, sorted; empty when no budget is
	Pods    []PodRef               // the first pods, sorted, as many as were asked for
	Count   int                    // all pods
	// Since is when Pods of the Node were first blocked by this Key. A plan leaves it zero; drain/runner sets it.
	Since   time.Time
	Message string
}

// Key identifies the cause of a blocker: equal keys in two plans are the same cause. It does not contain the message, which may be the text
// of an error that differs each time.
func (b Blocker) Key() string {
	var s strings.Builder
	s.WriteString(b.Node + "|" + string(b.Reason))
	for _, name := range b.Budgets {
		s.WriteString("|" + name.String())
	}
	return s.String()
}

// Blockers groups the blocked Pods by Node, reason and budgets (without a budget: by message), sorted. Each group names at most maxPods
// Pods; 0 or less means 3. Pods that are terminating, requested, or wait for others are not blockers.
func (p Plan) Blockers(maxPods int) []Blocker {
	groups := blockerGroups{}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if group(d) == groupBlocked {
			groups.add(blockerOf(d), d)
		}
	}
	return groups.sorted(maxPods)
}

// blockerOf returns the blocker of a Pod, without the Pod.
func blockerOf(d *Decision) Blocker {
	b := Blocker{Node: d.Node, Reason: d.Reason, Message: d.Message}
	if aboutBudgets(d.Reason) {
		b.Budgets = d.Budgets
	}
	return b
}

// blockerGroups collects the Pods of a blocker.
type blockerGroups map[blockerGroup]*Blocker

// blockerGroup is the cause of a blocker and, without a budget, its message.
type blockerGroup struct {
	node    string
	reason  Reason
	budget  types.NamespacedName
	budgets int
	message string
}

func (a blockerGroup) compare(b blockerGroup) int {
	return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.reason, b.reason), compareKeys(a.budget, b.budget),
		cmp.Compare(a.budgets, b.budgets), cmp.Compare(a.message, b.message))
}

func (g blockerGroups) add(b Blocker, d *Decision) {
	group := blockerGroup{node: b.Node, reason: b.Reason, budgets: len(b.Budgets), message: b.Message}
	if len(b.Budgets) > 0 {
		group.budget, group.message = b.Budgets[0], ""
	}
	if g[group] == nil {
		g[group] = &b
	}
	g[group].Pods = append(g[group].Pods, RefOf(d.Pod))
}

// sorted returns the groups with at most maxPods Pods each; 0 or less means defaultNames.
func (g blockerGroups) sorted(maxPods int) []Blocker {
	if maxPods <= 0 {
		maxPods = defaultNames
	}
	out := make([]Blocker, 0, len(g))
	for _, group := range slices.SortedFunc(maps.Keys(g), blockerGroup.compare) {
		b := g[group]
		b.Count = len(b.Pods)
		slices.SortFunc(b.Pods, comparePodRefs)
		b.Pods = b.Pods[:min(maxPods, len(b.Pods)):min(maxPods, len(b.Pods))]
		out = append(out, *b)
	}
	return out
}

func aboutBudgets(r Reason) bool {
	return slices.Contains([]Reason{ReasonBudgetExhausted, ReasonBudgetStale, ReasonBudgetNeverAllows, ReasonMultipleBudgets}, r)
}

func comparePodRefs(a, b PodRef) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// Obstacle is a blocker that waiting does not remove: a person has to change something.
type Obstacle struct {
	Blocker
	// Remedy is what a person can do.
	Remedy string
}

// Permanent returns what prevents the drain permanently, as far as the plan can know before the first eviction. Pods of later orders count
// too. Groups are sorted and limited like [Plan.Blockers]; 0 or less means 3 Pods.
//
//   - Budgets that can never allow an eviction of the Pods they cover, except unready Pods that may be evicted, and Pods that two budgets
//     select: the API server refuses to evict these (k/k #75957). A webhook may remove such Pods when they are requested, as KubeVirt's
//     does; a plan cannot know.
//   - Pods that are or will be terminating and have finalizers, except those of Kubernetes' own controllers. Their object stays until the
//     finalizers are removed; a plan cannot know whether their controller still runs.
//   - Pods that a rule denies, and Pods whose completion is waited for although their restartPolicy is Always.
//
// Budgets that allow no eviction only at the moment are in Blockers.
func (p Plan) Permanent(maxPods int) []Obstacle {
	groups, remedies := blockerGroups{}, map[string]string{}
	add := func(d *Decision, b Blocker, remedy string) {
		b.Node = d.Node
		groups.add(b, d)
		remedies[b.Key()] = remedy
	}
	for i := range p.Decisions {
		p.obstacles(&p.Decisions[i], add)
	}
	out := make([]Obstacle, 0, len(groups))
	for _, b := range groups.sorted(maxPods) {
		out = append(out, Obstacle{Blocker: b, Remedy: remedies[b.Key()]})
	}
	return out
}

func (p Plan) obstacles(d *Decision, add func(*Decision, Blocker, string)) {
	leaving := d.Intended == Evict || d.Intended == Delete
	switch {
	case d.Action == Ignore:
		return
	case d.Intended == Evict && !onItsWay(d):
		if b, remedy, found := p.budgets.obstacle(d.Pod); found {
			add(d, b, remedy)
		}
	case d.Action == Deny:
		add(d, blockerOf(d), "change the Pod, or the rules of the drain")
	case d.Reason == ReasonWaitCompleted || d.Reason == ReasonWaitCompletedLater:
		if neverCompletes(d.Pod) {
			add(d, Blocker{Reason: ReasonNeverCompletes, Message: "waiting for completion of a Pod with restartPolicy Always"},
				"delete the Pod when it may go, or let it be evicted: change its drain label or the MachineDrainRule")
		}
	}
	if names := strangeFinalizers(d.Pod); len(names) > 0 && (leaving || d.Pod.DeletionTimestamp != nil) {
		add(d, Blocker{Reason: ReasonFinalizer, Message: "finalizers keep the Pod when its containers have ended: " +
			strings.Join(names, ", ")}, "their controller has to remove them; remove them by hand if it no longer runs")
	}
}

func onItsWay(d *Decision) bool { return d.Action == Wait && group(d) == groupTerminating }

// obstacle reports whether budgets refuse the Pod permanently.
func (l ledger) obstacle(pod *corev1.Pod) (b Blocker, remedy string, found bool) {
	only, refusal := l.judge(pod)
	switch budgets := l.of[pod]; refusal {
	case ReasonMultipleBudgets:
		return Blocker{Reason: refusal, Budgets: appendNames(nil, budgets), Message: multipleBudgetsMessage(budgets)},
			"let one budget select the Pod: change the selectors or the Pod's labels, or delete the others", true
	case ReasonBudgetNeverAllows:
		return Blocker{Reason: refusal, Budgets: appendNames(nil, budgets), Message: neverAllowsMessage(only)},
			openBudget(only.obj), true
	default:
		return Blocker{}, "", false
	}
}

// strangeFinalizers returns the finalizers that are not those of Kubernetes' own controllers, sorted.
func strangeFinalizers(pod *corev1.Pod) []string {
	var strange []string
	for _, name := range pod.Finalizers {
		switch name {
		case batchv1.JobTrackingFinalizer, metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		default:
			strange = append(strange, name)
		}
	}
	slices.Sort(strange)
	return strange
}

// Warnings returns what is lost when the plan is carried out: data in emptyDir volumes, and unfinished Pods that no controller creates
// again; and the warnings of rules (see Verdict). Pods that are terminating or stay on the Node have no warnings. Warnings are grouped by
// Node, reason and message, and sorted; each names at most maxPods Pods (0 or less means 3). A warning is no blocker and does not change a
// plan. The messages are those of Cluster API.
func (p Plan) Warnings(maxPods int) []Blocker {
	groups := blockerGroups{}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if d.Intended != Evict && d.Intended != Delete {
			continue
		}
		add := func(reason Reason, message string) {
			groups.add(Blocker{Node: d.Node, Reason: reason, Message: message}, d)
		}
		for _, text := range d.Warnings {
			add(reasonOfWarning(text), text)
		}
		if finished(d.Pod) {
			continue
		}
		if hasLocalData(d.Pod) && !slices.Contains(d.Warnings, localStorageWarning) {
			add(ReasonLocalData, "evicting Pod with local storage")
		}
		if metav1.GetControllerOfNoCopy(d.Pod) == nil && !slices.Contains(d.Warnings, unmanagedWarning) {
			add(ReasonUnmanaged, "evicting Pod that has no controller")
		}
	}
	return groups.sorted(maxPods)
}

// reasonOfWarning recognizes the texts of the rules of kubectl.
func reasonOfWarning(text string) Reason {
	switch text {
	case localStorageWarning:
		return ReasonLocalData
	case unmanagedWarning:
		return ReasonUnmanaged
	default:
		return ReasonRuleWarning
	}
}

func hasLocalData(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
}
