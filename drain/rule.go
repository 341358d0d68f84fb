package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rule takes a Pod and the verdict of earlier rules, and returns the new verdict: prev if it does not decide. It must not change the Pod.
// An error denies the Pod.
type Rule func(pod *corev1.Pod, prev Verdict) (Verdict, error)

// DefaultRules returns the rules of a [Planner] without rules, in their order. They decide like kubectl drain with --force,
// --ignore-daemonsets and --delete-emptydir-data, except that finished Pods of a DaemonSet are ignored too, because the DaemonSet would
// create evicted ones again without end (Cluster API #12640).
func DefaultRules() []Rule {
	return []Rule{ignoreMirrorPods, ignoreDaemonSetPods, waitForTerminating, evictFinished, evictRest}
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
		if v = next; v.Action == Deny {
			break
		}
	}
	if !slices.Contains([]Action{Evict, Delete, Wait, Ignore, Deny}, v.Action) {
		return v.decide(Deny, ReasonNoVerdict, "no drain rule decided about the pod")
	}
	v.Reason = cmp.Or(v.Reason, ReasonUnexplained)
	return v
}

// ignoreMirrorPods is a [Rule]: static Pods belong to the kubelet and cannot be evicted.
func ignoreMirrorPods(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return prev.decideIf(mirror, Ignore, ReasonMirrorPod, "mirror pod of a static pod"), nil
}

// ignoreDaemonSetPods is a [Rule]: Pods controlled by an apps DaemonSet are ignored in any phase, also when finished or terminating. It
// trusts the owner reference and does not read the DaemonSet.
func ignoreDaemonSetPods(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	return prev.decideIf(ofDaemonSet(pod), Ignore, ReasonDaemonSetPod, "ignoring DaemonSet-managed Pod"), nil
}

// waitForTerminating is a [Rule]: a Pod with a deletionTimestamp is waited for, and not evicted a second time.
func waitForTerminating(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if pod.DeletionTimestamp == nil || prev.Action == Ignore {
		return prev, nil
	}
	return prev.decide(Wait, ReasonTerminating, "deletionTimestamp set, but still not removed from the Node"), nil
}

// evictFinished is a [Rule]: Succeeded and Failed Pods are evicted.
func evictFinished(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	return prev.decideIf(finished(pod), Evict, ReasonFinished, "evicting finished Pod"), nil
}

// evictRest is a [Rule]: Pods that no earlier rule decided about are evicted.
func evictRest(_ *corev1.Pod, prev Verdict) (Verdict, error) {
	return prev.decideIf(true, Evict, ReasonEvictable, ""), nil
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// waitCompleted is a [Rule]: the drain waits until the Pod has completed, and Pods of a higher order wait too. A Succeeded or Failed Pod is
// ignored even while its object exists; Cluster API waits for the object (#12920). A Pod that is deleted is waited for like other
// terminating Pods.
func waitCompleted(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if finished(pod) {
		return prev.decideIf(true, Ignore, ReasonCompleted, "the Pod has completed"), nil
	}
	return prev.decideIf(true, Wait, ReasonWaitCompleted, "waiting for completion"), nil
}

func skip(prev Verdict) Verdict {
	return prev.decideIf(true, Ignore, ReasonSkipped, "a rule excludes the Pod from the drain")
}

// neverCompletes reports whether a Pod ends only when it is deleted.
func neverCompletes(pod *corev1.Pod) bool {
	always := pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pod.Spec.RestartPolicy == ""
	return always && pod.Spec.ActiveDeadlineSeconds == nil
}

func ofDaemonSet(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "DaemonSet" {
		return false
	}
	group, _, versioned := strings.Cut(ref.APIVersion, "/")
	return versioned && group == "apps"
}

// drainLabelKey is the label of Cluster API (capi-machine 3.2) that decides how a Pod is drained.
const drainLabelKey = "cluster.x-k8s.io/drain"

// drainLabel is a [Rule]: the case-insensitive values skip and wait-completed, with or without the dash, decide. As in Cluster API, Pods
// whose completion is waited for have order 0, and other values do not decide. Other values cause a warning about the Pod.
func drainLabel(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	value, found := pod.Labels[drainLabelKey]
	switch {
	case !found || prev.Action != Undecided:
		return prev, nil
	case strings.EqualFold(value, "skip"):
		return skip(prev), nil
	case strings.EqualFold(strings.Replace(value, "-", "", 1), "waitcompleted"):
		prev.Order = 0
		return waitCompleted(pod, prev)
	}
	return prev.warn(fmt.Sprintf("label %s has the unknown value %.64q", drainLabelKey, value)), nil
}
