package drain

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
	if maxPods <= 0 {
		maxPods = defaultNames
	}
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
	budgets := l.matching(pod)
	switch {
	case len(budgets) == 0 || outsideBudgets(pod):
		return Blocker{}, "", false
	case len(budgets) > 1:
		return Blocker{Reason: ReasonMultipleBudgets, Budgets: appendNames(nil, budgets), Message: multipleBudgetsMessage(budgets)},
			"let one budget select the Pod: change the selectors or the Pod's labels, or delete the others", true
	}
	only := budgets[0]
	if stale(only.obj) || !neverAllows(only.obj) || !ready(pod) && unreadyMayGo(only.obj) {
		return Blocker{}, "", false
	}
	return Blocker{Reason: ReasonBudgetNeverAllows, Budgets: appendNames(nil, budgets), Message: neverAllowsMessage(only)},
		openBudget(only.obj), true
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
