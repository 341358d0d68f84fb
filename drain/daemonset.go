package drain

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DaemonSetDrain selects the DaemonSet Pods that are drained too. The zero value drains none.
type DaemonSetDrain struct {
	// Taints are taints with effect NoSchedule or NoExecute that were set on the Node for the drain. A DaemonSet Pod that tolerates all of
	// them would be created again immediately, even on a cordoned Node, and is ignored; other DaemonSet Pods are drained. Karpenter decides
	// in the same way. Without taints, all of them are ignored.
	Taints []corev1.Taint
	// All drains every unfinished DaemonSet Pod, whatever it tolerates. Use it only if the Pods are not created again: otherwise the drain
	// does not end.
	All bool
	// Offset is added to the order of earlier rules: positive to drain DaemonSet Pods after other Pods with the same order, negative to
	// drain them before.
	Offset int32
}

// Rule returns a [Rule] that replaces [IgnoreDaemonSetPods]: it ignores DaemonSet Pods that would be created again, and finished ones,
// which the DaemonSet would create again without end (Cluster API #12640). Later rules decide about the others. It keeps o.Taints.
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

// comesBack reports that no taint prevents a new Pod of the same DaemonSet from being scheduled to the Node.
func comesBack(pod *corev1.Pod, taints []corev1.Taint) bool {
	for i := range taints {
		if taints[i].Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, &taints[i]) {
			return false
		}
	}
	return true
}

// tolerates follows the scheduler. An unknown operator is regarded as tolerating, so that a DaemonSet Pod is ignored.
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
