package drain

import corev1 "k8s.io/api/core/v1"

// WaitCompleted is a [Rule] for [When]: the pod is left alone until it has completed, and holds back pods of a higher order
// as if it were being evicted. A Succeeded or Failed pod is done and is ignored even though its object is still there; Cluster
// API waits for the object (#12920). A pod that somebody else deletes is waited for like any terminating pod.
func WaitCompleted(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	switch {
	case prev.Action != Undecided:
		return prev, nil
	case finished(pod):
		return prev.decide(Ignore, ReasonCompleted, "the Pod has completed"), nil
	default:
		return prev.decide(Wait, ReasonWaitCompleted, "waiting for completion"), nil
	}
}

// Skip is a [Rule] for [When]: the pod is left on the Node and does not block the drain.
func Skip(_ *corev1.Pod, prev Verdict) (Verdict, error) {
	if prev.Action != Undecided {
		return prev, nil
	}
	return prev.decide(Ignore, ReasonSkipped, "a rule leaves the Pod alone"), nil
}

// neverCompletes says that only its deletion ends a pod.
func neverCompletes(pod *corev1.Pod) bool {
	always := pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pod.Spec.RestartPolicy == ""
	return always && pod.Spec.ActiveDeadlineSeconds == nil
}
