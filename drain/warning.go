package drain

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Warning is about Pods that leave. It does not change a plan.
type Warning struct {
	Node    string
	Reason  Reason
	Message string
	Pods    []PodRef // the first Pods, sorted, at most as many as requested
	Count   int      // all Pods
}

// Warnings returns what is lost when the plan is carried out: data in emptyDir volumes, and unfinished Pods that no controller creates
// again; and the warnings of rules (see Verdict). Pods that are terminating or stay on the Node have no warnings. Warnings are grouped by
// Node, reason and message, and sorted; each names at most maxPods Pods (0 or less means 3). The messages are those of Cluster API.
func (p Plan) Warnings(maxPods int) []Warning {
	if maxPods <= 0 {
		maxPods = defaultNames
	}
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
	out := make([]Warning, 0, len(groups))
	for _, b := range groups.sorted(maxPods) {
		out = append(out, Warning{Node: b.Node, Reason: b.Reason, Message: b.Message, Pods: b.Pods, Count: b.Count})
	}
	return out
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
