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

// Reasons of [KubectlRules], in addition to those of the default rules and ReasonStuckTerminating.
const (
	ReasonNotSelected Reason = "NotSelected" // the pod selector does not match the pod
	ReasonOrphaned    Reason = "Orphaned"    // the DaemonSet that the pod names does not exist
)

// Texts of kubectl drain, word for word, because people search for them. Errors begin as kubectl prints them; kubectl adds the names of the
// Pods, which a verdict does not contain.
const (
	kubectlError        = "cannot delete "
	daemonSetFatal      = kubectlError + "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
	daemonSetWarning    = "ignoring DaemonSet-managed Pods"
	localStorageFatal   = kubectlError + "Pods with local storage (use --delete-emptydir-data to override)"
	localStorageWarning = "deleting Pods with local storage"
	unmanagedFatal      = kubectlError + "Pods that declare no controller (use --force to override)"
	unmanagedWarning    = "deleting Pods that declare no controller"
)

// errNoClock is the error of options with an age limit but without a clock.
var errNoClock = errors.New("KubectlOptions.SkipWaitForDeleteTimeout needs the clock Now: set it, or leave the timeout 0")

// KubectlOptions are the flags of kubectl drain that decide about pods. The zero value is kubectl drain without flags.
type KubectlOptions struct {
	// Force evicts Pods that no controller creates again, and Pods of a DaemonSet that does not exist (--force).
	Force bool
	// IgnoreAllDaemonSets ignores the Pods of DaemonSets instead of denying them (--ignore-daemonsets).
	IgnoreAllDaemonSets bool
	// DeleteEmptyDirData evicts Pods that lose the data of an emptyDir, in memory or on disk (--delete-emptydir-data).
	DeleteEmptyDirData bool
	// PodSelector selects Pods by their labels (--pod-selector); others are ignored. Nil selects all.
	PodSelector labels.Selector
	// SkipWaitForDeleteTimeout ignores Pods whose deletionTimestamp (the time of the request plus the grace period) is older than this
	// (--skip-wait-for-delete-timeout). As in kubectl, it is truncated to whole seconds; 0 ignores none.
	SkipWaitForDeleteTimeout time.Duration
	// Now returns the time for SkipWaitForDeleteTimeout. Without it, that option denies terminating Pods.
	Now func() time.Time
	// DaemonSets returns the DaemonSet that controls a Pod. It is called for every unfinished Pod of a DaemonSet in every plan, so it must
	// read from memory, for example from a lister. A nil error means that the DaemonSet exists, a NotFound error that it does not; any other
	// error denies the Pod. If DaemonSets is nil, the owner reference is trusted.
	DaemonSets func(namespace, name string) (*appsv1.DaemonSet, error)
	// JudgeFinishedDaemonSetPods treats Succeeded and Failed Pods of DaemonSets like running ones. kubectl evicts them, and the DaemonSet
	// creates them again on the same Node; with a Pod that always fails this does not end (Cluster API #12640). [DefaultRules] behave as if it
	// were set.
	JudgeFinishedDaemonSetPods bool
	// Additional rules are applied after kubectl's own filters and before the remaining Pods are evicted. Like kubectl's additional filters,
	// they are not applied to ignored Pods. Package drain/kubectl turns a PodFilter into such a rule.
	Additional []Rule
}

// KubectlRules returns rules with the verdicts and texts of kubectl drain v0.36, in kubectl's order: Pods that kubectl does not evict are
// ignored, those that stop kubectl are denied with its error, and all others are evicted. No rule calls an API. A differential test in
// package drain/kubectl compares them with k8s.io/kubectl/pkg/drain.
//
// There are three differences. A terminating Pod is waited for, and not evicted a second time. All warnings are collected, while kubectl
// retains only those of its last filter and so omits lost emptyDir data. A denied Pod does not prevent the eviction of others, while
// kubectl then evicts no Pod; to do the same, check [Plan.Blockers] before carrying out a plan.
//
// o is copied. If the rules are used concurrently, its functions must be safe for that.
func KubectlRules(o KubectlOptions) []Rule {
	rules := []Rule{o.selected, o.stuck, o.daemonSet, ignoreMirrorPods, o.localStorage, o.unmanaged}
	for _, rule := range o.Additional {
		rules = append(rules, unlessIgnored(rule))
	}
	return append(rules, waitForTerminating, evictFinished, evictRest)
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

// unlessIgnored does not apply a rule to ignored Pods. A nil rule stays nil, which Decide denies.
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
