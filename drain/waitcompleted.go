package drain

import corev1 "k8s.io/api/core/v1"

// WaitCompleted is a [Rule] for [When]: the drain waits until the Pod has completed, and Pods of a higher order wait too. A Succeeded or
// Failed Pod is ignored even while its object exists; Cluster API waits for the object (#12920). A Pod that is deleted is waited for like
// other terminating Pods.
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

// Skip is a [Rule] for [When]: the Pod stays on the Node and does not block the drain.
func Skip(_ *corev1.Pod, prev Verdict) (Verdict, error) {
	if prev.Action != Undecided {
		return prev, nil
	}
	return prev.decide(Ignore, ReasonSkipped, "a rule leaves the Pod alone"), nil
}

// neverCompletes reports that a Pod ends only when it is deleted.
func neverCompletes(pod *corev1.Pod) bool {
	always := pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pod.Spec.RestartPolicy == ""
	return always && pod.Spec.ActiveDeadlineSeconds == nil
}
