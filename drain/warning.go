package drain

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Warning is something that people may want to know about pods before they go. It never changes a plan.
type Warning struct {
	Node    string
	Reason  Reason
	Message string
	Pods    []PodRef // the first pods, sorted, as many as were asked for
	Count   int      // all pods
}

// Warnings returns what is lost by carrying the plan out now or later: data in emptyDir volumes, and unfinished pods that no
// controller creates again; and what rules warn about (see Verdict). Pods that are terminating already or stay on the Node
// have no warnings. Grouped by Node, reason and message, sorted; each names at most maxPods pods (0 or less means
// 3). The messages are Cluster API's.
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

// reasonOfWarning knows what the rules of kubectl say.
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
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].EmptyDir != nil {
			return true
		}
	}
	return false
}
