package drain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Rule gets a Pod and the verdict of earlier rules, and returns the new verdict: prev if it does not decide. It must not change the Pod. An
// error denies the Pod.
type Rule func(pod *corev1.Pod, prev Verdict) (Verdict, error)

// DefaultRules returns the rules of a [Planner] without rules, in their order. They decide like kubectl drain with --force,
// --ignore-daemonsets and --delete-emptydir-data, except that finished Pods of a DaemonSet are ignored too, because the DaemonSet creates
// evicted ones again without end (Cluster API #12640).
func DefaultRules() []Rule {
	return []Rule{IgnoreMirrorPods, IgnoreDaemonSetPods, WaitForTerminating, EvictFinished, EvictRest}
}

// Decide applies rules to one Pod. The first error or Deny is final. If no rule decides, the Pod is denied with [ReasonNoVerdict]. A
// verdict without a reason gets [ReasonUnexplained].
func Decide(pod *corev1.Pod, rules []Rule) Verdict {
	var v Verdict
	for i, rule := range rules {
		if rule == nil {
			return v.decide(Deny, ReasonRuleFailed, fmt.Sprintf("drain rule %d is nil", i))
		}
		next, err := rule(pod, v)
		if err != nil {
			return v.decide(Deny, ReasonRuleFailed, err.Error())
		}
		if next.Action == Deny {
			return explained(next)
		}
		v = next
	}
	if v.Action == Undecided || v.Action > Deny {
		return v.decide(Deny, ReasonNoVerdict, "no drain rule decided about the pod")
	}
	return explained(v)
}

func explained(v Verdict) Verdict {
	if v.Reason == "" {
		v.Reason = ReasonUnexplained
	}
	return v
}

// IgnoreMirrorPods is a [Rule]: static Pods belong to the kubelet and cannot be evicted.
func IgnoreMirrorPods(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror || prev.Action != Undecided {
		return prev, nil
	}
	return prev.decide(Ignore, ReasonMirrorPod, "mirror pod of a static pod"), nil
}

// IgnoreDaemonSetPods is a [Rule]: Pods controlled by an apps DaemonSet are ignored in any phase, also when finished or terminating. It
// trusts the owner reference and does not read the DaemonSet.
func IgnoreDaemonSetPods(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if prev.Action != Undecided || !ofDaemonSet(pod) {
		return prev, nil
	}
	return prev.decide(Ignore, ReasonDaemonSetPod, "ignoring DaemonSet-managed Pod"), nil
}

// WaitForTerminating is a [Rule]: a Pod with a deletionTimestamp is waited for, and not evicted a second time.
func WaitForTerminating(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if pod.DeletionTimestamp == nil || prev.Action == Ignore {
		return prev, nil
	}
	return prev.decide(Wait, ReasonTerminating, "deletionTimestamp set, but still not removed from the Node"), nil
}

// EvictFinished is a [Rule]: Succeeded and Failed Pods are evicted.
func EvictFinished(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if prev.Action != Undecided || !finished(pod) {
		return prev, nil
	}
	v := prev.decide(Evict, ReasonFinished, "evicting finished Pod")
	v.Warnings = prev.Warnings
	return v, nil
}

// EvictRest is a [Rule]: Pods that no earlier rule decided about are evicted.
func EvictRest(_ *corev1.Pod, prev Verdict) (Verdict, error) {
	if prev.Action != Undecided {
		return prev, nil
	}
	return Verdict{Action: Evict, Order: prev.Order, Reason: ReasonEvictable, Warnings: prev.Warnings}, nil
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

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
