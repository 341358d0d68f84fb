package drain

import (
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Reasons of [KubectlRules], besides those of the default rules and ReasonStuckTerminating.
const (
	ReasonNotSelected Reason = "NotSelected" // the pod selector leaves the pod out
	ReasonOrphaned    Reason = "Orphaned"    // the DaemonSet that the pod names does not exist
)

// What kubectl drain says, word for word: people search for these sentences. Errors begin as kubectl prints them; kubectl
// adds the names of the pods, which a verdict does not carry.
const (
	kubectlError        = "cannot delete "
	daemonSetFatal      = kubectlError + "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
	daemonSetWarning    = "ignoring DaemonSet-managed Pods"
	localStorageFatal   = kubectlError + "Pods with local storage (use --delete-emptydir-data to override)"
	localStorageWarning = "deleting Pods with local storage"
	unmanagedFatal      = kubectlError + "Pods that declare no controller (use --force to override)"
	unmanagedWarning    = "deleting Pods that declare no controller"
)

// errNoClock says that options ask for an age and bring no clock.
var errNoClock = errors.New("KubectlOptions.SkipWaitForDeleteTimeout needs Now, the clock to tell ages by: set it, or leave the timeout 0")

// KubectlOptions are the flags of kubectl drain that decide about pods. The zero value is kubectl drain without flags.
type KubectlOptions struct {
	// Force lets pods go that nothing would create again, and pods of a DaemonSet that does not exist (--force).
	Force bool
	// IgnoreAllDaemonSets leaves the pods of DaemonSets where they are instead of denying them (--ignore-daemonsets).
	IgnoreAllDaemonSets bool
	// DeleteEmptyDirData lets pods go that lose the data of an emptyDir, in memory or on disk (--delete-emptydir-data).
	DeleteEmptyDirData bool
	// PodSelector leaves out pods whose labels do not match (--pod-selector); nil selects all.
	PodSelector labels.Selector
	// SkipWaitForDeleteTimeout leaves out pods whose deletionTimestamp (the time of the request plus the grace period) is
	// older than this (--skip-wait-for-delete-timeout). Only whole seconds count, as for kubectl; 0 means none are left out.
	SkipWaitForDeleteTimeout time.Duration
	// Now tells the time for SkipWaitForDeleteTimeout, which denies terminating pods without it; nothing else asks for it.
	Now func() time.Time
	// DaemonSets finds the DaemonSet that a pod names as its controller. It is asked for every unfinished pod of a DaemonSet
	// in every plan, so it must answer from memory, for example from a lister. A nil error means that it exists, an error
	// that is a NotFound that it does not; any other error denies the pod. With nil the owner reference is trusted.
	DaemonSets func(namespace, name string) (*appsv1.DaemonSet, error)
	// JudgeFinishedDaemonSetPods treats Succeeded and Failed pods of DaemonSets like running ones. kubectl evicts them, the
	// DaemonSet creates them again on the same Node, and with a pod that keeps failing this goes on for ever (Cluster API
	// #12640). [DefaultRules] has it switched on.
	JudgeFinishedDaemonSetPods bool
	// Additional rules are asked after kubectl's own filters and before the rest is evicted; like kubectl's additional
	// filters they see only what those let pass. Package drain/kubectl turns a PodFilter into such a rule.
	Additional []Rule
}

// KubectlRules returns rules with the verdicts and texts of kubectl drain v0.36, in kubectl's order: pods that kubectl
// would leave alone are ignored, those that make it stop are denied with its error, all others are evicted. No rule calls
// an API. A differential test in package drain/kubectl holds them against k8s.io/kubectl/pkg/drain.
//
// They differ in three points. A terminating pod is waited for instead of being evicted a second time. Warnings add up,
// where kubectl keeps only what its last filter says and so never mentions lost emptyDir data. And a denied pod stops
// nobody else, where kubectl evicts none at all; look at [Plan.Blockers] before carrying out a plan to stop as well.
//
// o is copied; its functions must be safe for concurrent use if the rules are used so.
func KubectlRules(o KubectlOptions) []Rule {
	rules := []Rule{o.selected, o.stuck, o.daemonSet, IgnoreMirrorPods, o.localStorage, o.unmanaged}
	for _, rule := range o.Additional {
		rules = append(rules, unlessIgnored(rule))
	}
	return append(rules, waitAndWarn, EvictFinished, EvictRest)
}

func (o KubectlOptions) selected(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if o.PodSelector == nil || o.PodSelector.Matches(labels.Set(pod.Labels)) {
		return prev, nil
	}
	return prev.decide(Ignore, ReasonNotSelected, "the pod selector does not select the Pod"), nil
}

func (o KubectlOptions) stuck(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	limit := int(o.SkipWaitForDeleteTimeout.Seconds())
	if prev.Action == Ignore || limit <= 0 || pod.DeletionTimestamp.IsZero() {
		return prev, nil
	}
	if o.Now == nil {
		return prev, errNoClock
	}
	if int(o.Now().Sub(pod.DeletionTimestamp.Time).Seconds()) <= limit {
		return prev, nil
	}
	return prev.decide(Ignore, ReasonStuckTerminating, fmt.Sprintf("has DeletionTimestamp older than %d seconds, skipping", limit)), nil
}

func (o KubectlOptions) daemonSet(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if prev.Action == Ignore || ref == nil || ref.Kind != "DaemonSet" || ref.APIVersion != appsv1.SchemeGroupVersion.String() {
		return prev, nil
	}
	if finished(pod) && !o.JudgeFinishedDaemonSetPods {
		return prev, nil
	}
	if o.DaemonSets != nil {
		_, err := o.DaemonSets(pod.Namespace, ref.Name)
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return prev.decide(Deny, ReasonRuleFailed, kubectlError+err.Error()), nil
		case err != nil && !o.Force:
			return prev.decide(Deny, ReasonOrphaned, kubectlError+err.Error()), nil
		case err != nil:
			return prev.warn(err.Error()), nil
		}
	}
	if !o.IgnoreAllDaemonSets {
		return prev.decide(Deny, ReasonDaemonSetPod, daemonSetFatal), nil
	}
	return prev.decide(Ignore, ReasonDaemonSetPod, daemonSetWarning).warn(daemonSetWarning), nil
}

func (o KubectlOptions) localStorage(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	switch {
	case prev.Action == Ignore || finished(pod) || !hasLocalData(pod):
		return prev, nil
	case !o.DeleteEmptyDirData:
		return prev.decide(Deny, ReasonLocalData, localStorageFatal), nil
	}
	return prev.warn(localStorageWarning), nil
}

func (o KubectlOptions) unmanaged(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	switch {
	case prev.Action == Ignore || finished(pod) || metav1.GetControllerOfNoCopy(pod) != nil:
		return prev, nil
	case !o.Force:
		return prev.decide(Deny, ReasonUnmanaged, unmanagedFatal), nil
	}
	return prev.warn(unmanagedWarning), nil
}

// waitAndWarn is [WaitForTerminating] for pods whose end is worth a warning: kubectl says it of those as well.
func waitAndWarn(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	v, err := WaitForTerminating(pod, prev)
	v.Warnings = prev.Warnings
	return v, err
}

// unlessIgnored spares a rule the pods that are out already. A nil rule stays nil, which Decide refuses.
func unlessIgnored(rule Rule) Rule {
	if rule == nil {
		return nil
	}
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if prev.Action == Ignore {
			return prev, nil
		}
		return rule(pod, prev)
	}
}
