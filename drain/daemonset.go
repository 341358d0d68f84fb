package drain

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DaemonSetDrain says which pods of DaemonSets are drained as well. The zero value drains none.
type DaemonSetDrain struct {
	// Taints are taints on the Node with effect NoSchedule or NoExecute that were put there for the drain. A DaemonSet pod
	// that tolerates all of them would come back as soon as it is gone, cordon or not, and is ignored; one that does not is
	// drained. This is how Karpenter decides. No taints means that all of them come back.
	Taints []corev1.Taint
	// All drains every unfinished DaemonSet pod whatever it tolerates. Only for callers who know that the pods do not come
	// back: a drain that waits for pods which return never ends.
	All bool
	// Offset is added to the order of the rules before: positive to drain DaemonSet pods after the pods that had the same
	// order, negative to drain them before.
	Offset int32
}

// Rule returns a [Rule] that takes the place of [IgnoreDaemonSetPods]: it ignores DaemonSet pods that would come back, and
// finished ones, which the DaemonSet would create again without end (Cluster API #12640), and leaves the others to the rules
// after it. It keeps o.Taints.
func (o DaemonSetDrain) Rule() Rule {
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if prev.Action != Undecided || !ofDaemonSet(pod) {
			return prev, nil
		}
		if finished(pod) || !o.All && comesBack(pod, o.Taints) {
			return IgnoreDaemonSetPods(pod, prev)
		}
		prev.Order = addOrder(prev.Order, o.Offset)
		return prev, nil
	}
}

func ofDaemonSet(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "DaemonSet" {
		return false
	}
	group, _, versioned := strings.Cut(ref.APIVersion, "/")
	return versioned && group == "apps"
}

// comesBack says that no taint keeps a new pod of the same DaemonSet away from the Node.
func comesBack(pod *corev1.Pod, taints []corev1.Taint) bool {
	for i := range taints {
		if taints[i].Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, &taints[i]) {
			return false
		}
	}
	return true
}

// tolerates follows the scheduler. An operator that is not known here is taken to tolerate: a DaemonSet pod is then ignored,
// which is the safe side.
func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		if t.Key != "" && t.Key != taint.Key || t.Effect != "" && t.Effect != taint.Effect {
			continue
		}
		if equal := t.Operator == "" || t.Operator == corev1.TolerationOpEqual; !equal || t.Value == taint.Value {
			return true
		}
	}
	return false
}
