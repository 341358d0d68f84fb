package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		if v = next; v.Action == Deny {
			break
		}
	}
	if v.Action == Undecided || v.Action > Deny {
		return v.decide(Deny, ReasonNoVerdict, "no drain rule decided about the pod")
	}
	v.Reason = cmp.Or(v.Reason, ReasonUnexplained)
	return v
}

// IgnoreMirrorPods is a [Rule]: static Pods belong to the kubelet and cannot be evicted.
func IgnoreMirrorPods(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return prev.decideIf(mirror, Ignore, ReasonMirrorPod, "mirror pod of a static pod"), nil
}

// IgnoreDaemonSetPods is a [Rule]: Pods controlled by an apps DaemonSet are ignored in any phase, also when finished or terminating. It
// trusts the owner reference and does not read the DaemonSet.
func IgnoreDaemonSetPods(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	return prev.decideIf(ofDaemonSet(pod), Ignore, ReasonDaemonSetPod, "ignoring DaemonSet-managed Pod"), nil
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
	v := prev.decideIf(finished(pod), Evict, ReasonFinished, "evicting finished Pod")
	v.Warnings = prev.Warnings
	return v, nil
}

// EvictRest is a [Rule]: Pods that no earlier rule decided about are evicted.
func EvictRest(_ *corev1.Pod, prev Verdict) (Verdict, error) {
	v := prev.decideIf(true, Evict, ReasonEvictable, "")
	v.Warnings = prev.Warnings
	return v, nil
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// WaitCompleted is a [Rule] for [When]: the drain waits until the Pod has completed, and Pods of a higher order wait too. A Succeeded or
// Failed Pod is ignored even while its object exists; Cluster API waits for the object (#12920). A Pod that is deleted is waited for like
// other terminating Pods.
func WaitCompleted(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if finished(pod) {
		return prev.decideIf(true, Ignore, ReasonCompleted, "the Pod has completed"), nil
	}
	return prev.decideIf(true, Wait, ReasonWaitCompleted, "waiting for completion"), nil
}

// Skip is a [Rule] for [When]: the Pod stays on the Node and does not block the drain.
func Skip(_ *corev1.Pod, prev Verdict) (Verdict, error) {
	return prev.decideIf(true, Ignore, ReasonSkipped, "a rule leaves the Pod alone"), nil
}

// neverCompletes reports that a Pod ends only when it is deleted.
func neverCompletes(pod *corev1.Pod) bool {
	always := pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pod.Spec.RestartPolicy == ""
	return always && pod.Spec.ActiveDeadlineSeconds == nil
}

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

// DrainLabel is a label of a Pod that decides how the Pod is drained.
type DrainLabel struct {
	Key string
	// Skip are the values that exclude the Pod from the drain, case-insensitive.
	Skip []string
	// WaitCompleted are the values that let the drain wait for completion of the Pod, case-insensitive and with or without their first dash.
	WaitCompleted []string
}

// ClusterAPIDrainLabel returns the label of Cluster API (capi-machine 3.2): cluster.x-k8s.io/drain with the case-insensitive values skip,
// wait-completed and waitcompleted.
func ClusterAPIDrainLabel() DrainLabel {
	return DrainLabel{Key: "cluster.x-k8s.io/drain", Skip: []string{"skip"}, WaitCompleted: []string{"wait-completed"}}
}

// Rule returns the [Rule] of the label. Pods whose completion is waited for have order 0, as in Cluster API. Other values do not decide, as
// in Cluster API, and cause a warning about the Pod.
func (l DrainLabel) Rule() Rule {
	skip, wait := slices.Clone(l.Skip), make([]string, 0, len(l.WaitCompleted))
	for _, value := range l.WaitCompleted {
		wait = append(wait, withoutDash(value))
	}
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		value, found := pod.Labels[l.Key]
		is := func(other string) bool { return strings.EqualFold(value, other) }
		if !found || prev.Action != Undecided {
			return prev, nil
		}
		if slices.ContainsFunc(skip, is) {
			return Skip(pod, prev)
		}
		value = withoutDash(value)
		if slices.ContainsFunc(wait, is) {
			prev.Order = 0
			return WaitCompleted(pod, prev)
		}
		return prev.warn(fmt.Sprintf("label %s has the unknown value %.64q", l.Key, pod.Labels[l.Key])), nil
	}
}

func withoutDash(s string) string { return strings.Replace(s, "-", "", 1) }
