package drain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Rule looks at a pod and at the verdict of the rules before it, and returns the verdict so far: prev when it has no
// opinion. It must not change the pod. An error denies the pod.
type Rule func(pod *corev1.Pod, prev Verdict) (Verdict, error)

// DefaultRules returns the rules that a [Planner] without rules uses, in their order. They equal kubectl drain with
// --force, --ignore-daemonsets and --delete-emptydir-data, except that finished pods of a DaemonSet are ignored as well,
// because evicting them makes the DaemonSet create them again without end (Cluster API #12640).
func DefaultRules() []Rule {
	return []Rule{IgnoreMirrorPods, IgnoreDaemonSetPods, WaitForTerminating, EvictFinished, EvictRest}
}

// Decide folds rules over one pod. The first error or Deny is final: a later rule never overwrites it. A pod without an
// opinion at the end is denied with [ReasonNoVerdict]; a verdict without a reason gets [ReasonUnexplained].
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

// IgnoreMirrorPods is a [Rule]: static pods belong to the kubelet and cannot be evicted.
func IgnoreMirrorPods(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror || prev.Action != Undecided {
		return prev, nil
	}
	return prev.decide(Ignore, ReasonMirrorPod, "mirror pod of a static pod"), nil
}

// IgnoreDaemonSetPods is a [Rule]: pods controlled by an apps DaemonSet are ignored in any phase, finished and
// terminating included. It trusts the owner reference and does not look for the DaemonSet.
func IgnoreDaemonSetPods(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if prev.Action != Undecided || !ofDaemonSet(pod) {
		return prev, nil
	}
	return prev.decide(Ignore, ReasonDaemonSetPod, "ignoring DaemonSet-managed Pod"), nil
}

// WaitForTerminating is a [Rule]: a pod with a deletionTimestamp is never evicted a second time, it is waited for.
func WaitForTerminating(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if pod.DeletionTimestamp == nil || prev.Action == Ignore {
		return prev, nil
	}
	return prev.decide(Wait, ReasonTerminating, "deletionTimestamp set, but still not removed from the Node"), nil
}

// EvictFinished is a [Rule]: Succeeded and Failed pods are evicted.
func EvictFinished(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if prev.Action != Undecided || !finished(pod) {
		return prev, nil
	}
	v := prev.decide(Evict, ReasonFinished, "evicting finished Pod")
	v.Warnings = prev.Warnings
	return v, nil
}

// EvictRest is a [Rule]: whatever no rule before it decided is evicted.
func EvictRest(_ *corev1.Pod, prev Verdict) (Verdict, error) {
	if prev.Action != Undecided {
		return prev, nil
	}
	return Verdict{Action: Evict, Order: prev.Order, Reason: ReasonEvictable, Warnings: prev.Warnings}, nil
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
