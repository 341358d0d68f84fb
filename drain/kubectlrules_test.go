package drain

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func terminatingFor(age time.Duration) podOption {
	return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: kubectlNow().Add(-age)} }
}

func kubectlNow() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// The whole is held against kubectl's code in package drain/kubectl; these cases say in words what is meant.
func TestKubectlRules(t *testing.T) {
	web, agent, failed := ownedBy("apps/v1", "ReplicaSet"), ownedBy("apps/v1", "DaemonSet"), inPhase(corev1.PodFailed)
	all := KubectlOptions{Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true}
	missing := func(_, name string) (*appsv1.DaemonSet, error) {
		return nil, apierrors.NewNotFound(appsv1.Resource("daemonsets"), name)
	}
	unreachable := func(string, string) (*appsv1.DaemonSet, error) { return nil, errors.New("cache not synced") }
	stuck := KubectlOptions{SkipWaitForDeleteTimeout: time.Minute, Now: kubectlNow}
	cases := map[string]struct {
		pod  *corev1.Pod
		o    KubectlOptions
		want Verdict
	}{
		"a replicated pod goes": {newPod("p", web), KubectlOptions{}, Verdict{Action: Evict, Reason: ReasonEvictable}},
		"a finished pod goes": {newPod("p", failed, withEmptyDir), KubectlOptions{},
			Verdict{Action: Evict, Reason: ReasonFinished, Message: "evicting finished Pod"}},
		"a mirror pod is silent": {newPod("p", mirror), KubectlOptions{},
			Verdict{Action: Ignore, Reason: ReasonMirrorPod, Message: "mirror pod of a static pod"}},
		"a pod without a controller needs force": {newPod("p"), KubectlOptions{},
			Verdict{Action: Deny, Reason: ReasonUnmanaged, Message: "cannot delete Pods that declare no controller (use --force to override)"}},
		"a pod without a controller under force": {newPod("p"), KubectlOptions{Force: true},
			Verdict{Action: Evict, Reason: ReasonEvictable, Warnings: []string{"deleting Pods that declare no controller"}}},
		"local data needs its flag": {newPod("p", web, withEmptyDir), KubectlOptions{},
			Verdict{Action: Deny, Reason: ReasonLocalData,
				Message: "cannot delete Pods with local storage (use --delete-emptydir-data to override)"}},
		"all warnings are kept": {newPod("p", withEmptyDir), all,
			Verdict{Action: Evict, Reason: ReasonEvictable,
				Warnings: []string{"deleting Pods with local storage", "deleting Pods that declare no controller"}}},
		"a DaemonSet pod needs its flag": {newPod("p", agent), KubectlOptions{},
			Verdict{Action: Deny, Reason: ReasonDaemonSetPod, Message: "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"}},
		"a DaemonSet pod is ignored with a warning": {newPod("p", agent), all,
			Verdict{Action: Ignore, Reason: ReasonDaemonSetPod, Message: "ignoring DaemonSet-managed Pods",
				Warnings: []string{"ignoring DaemonSet-managed Pods"}}},
		"a finished DaemonSet pod goes": {newPod("p", agent, failed), all,
			Verdict{Action: Evict, Reason: ReasonFinished, Message: "evicting finished Pod"}},
		"a finished DaemonSet pod stays when it is judged": {newPod("p", agent, failed),
			alsoWith(all, func(o *KubectlOptions) { o.JudgeFinishedDaemonSetPods = true }),
			Verdict{Action: Ignore, Reason: ReasonDaemonSetPod, Message: "ignoring DaemonSet-managed Pods",
				Warnings: []string{"ignoring DaemonSet-managed Pods"}}},
		"a DaemonSet of another version is none to kubectl": {newPod("p", ownedBy("apps/v1beta2", "DaemonSet")), all,
			Verdict{Action: Evict, Reason: ReasonEvictable}},
		"an orphan of a DaemonSet needs force": {newPod("p", agent), KubectlOptions{DaemonSets: missing, IgnoreAllDaemonSets: true},
			Verdict{Action: Deny, Reason: ReasonOrphaned, Message: `cannot delete daemonsets.apps "owner" not found`}},
		"an orphan of a DaemonSet under force": {newPod("p", agent), alsoWith(all, func(o *KubectlOptions) { o.DaemonSets = missing }),
			Verdict{Action: Evict, Reason: ReasonEvictable, Warnings: []string{`daemonsets.apps "owner" not found`}}},
		"an unknown DaemonSet denies, also under force": {newPod("p", agent),
			alsoWith(all, func(o *KubectlOptions) { o.DaemonSets = unreachable }),
			Verdict{Action: Deny, Reason: ReasonRuleFailed, Message: "cannot delete cache not synced"}},
		"a terminating pod is waited for": {newPod("p", web, terminatingFor(0)), KubectlOptions{},
			Verdict{Action: Wait, Reason: ReasonTerminating, Message: "deletionTimestamp set, but still not removed from the Node"}},
		"warnings about a terminating pod are kept": {newPod("p", withEmptyDir, terminatingFor(0)), all,
			Verdict{Action: Wait, Reason: ReasonTerminating, Message: "deletionTimestamp set, but still not removed from the Node",
				Warnings: []string{"deleting Pods with local storage", "deleting Pods that declare no controller"}}},
		"what was said about going ends with a denial": {newPod("p", withEmptyDir), KubectlOptions{DeleteEmptyDirData: true},
			Verdict{Action: Deny, Reason: ReasonUnmanaged, Message: "cannot delete Pods that declare no controller (use --force to override)"}},
		"a stuck pod is waited for until the limit": {newPod("p", web, terminatingFor(61*time.Second-1)), stuck,
			Verdict{Action: Wait, Reason: ReasonTerminating, Message: "deletionTimestamp set, but still not removed from the Node"}},
		"a stuck pod is left out after it": {newPod("p", web, terminatingFor(61*time.Second)), stuck,
			Verdict{Action: Ignore, Reason: ReasonStuckTerminating, Message: "has DeletionTimestamp older than 60 seconds, skipping"}},
		"without a clock nothing is stuck": {newPod("p", web, terminatingFor(time.Hour)), KubectlOptions{SkipWaitForDeleteTimeout: time.Minute},
			Verdict{Action: Deny, Reason: ReasonRuleFailed, Message: errNoClock.Error()}},
		"a pod that is not selected is not looked at": {newPod("p", terminatingFor(time.Hour)),
			KubectlOptions{PodSelector: labels.Nothing(), SkipWaitForDeleteTimeout: time.Minute},
			Verdict{Action: Ignore, Reason: ReasonNotSelected, Message: "the pod selector does not select the Pod"}},
		"a pod that is not selected stays": {newPod("p"), KubectlOptions{PodSelector: labels.SelectorFromSet(labels.Set{"app": "db"})},
			Verdict{Action: Ignore, Reason: ReasonNotSelected, Message: "the pod selector does not select the Pod"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.pod.DeepCopy()
			if diff := cmp.Diff(tc.want, Decide(tc.pod, KubectlRules(tc.o))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.pod); diff != "" {
				t.Errorf("the pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func alsoWith(o KubectlOptions, change func(*KubectlOptions)) KubectlOptions {
	change(&o)
	return o
}

func TestKubectlRules_AdditionalRulesSeeOnlyWhatKubectlLetsPass(t *testing.T) {
	var asked []string
	later := func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		asked = append(asked, pod.Name)
		prev.Order = 5
		return prev, nil
	}
	rules := KubectlRules(KubectlOptions{IgnoreAllDaemonSets: true, Additional: []Rule{later}})
	for _, pod := range []*corev1.Pod{
		newPod("mirror", mirror), newPod("agent", ownedBy("apps/v1", "DaemonSet")), newPod("bare"),
		newPod("web", ownedBy("apps/v1", "ReplicaSet")),
	} {
		if got := Decide(pod, rules); pod.Name == "web" && (got.Order != 5 || got.Action != Evict) {
			t.Errorf("got %+v", got)
		}
	}
	if diff := cmp.Diff([]string{"web"}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestNothingIsWarnedAboutTwice(t *testing.T) {
	rules := KubectlRules(KubectlOptions{Force: true, DeleteEmptyDirData: true, IgnoreAllDaemonSets: true})
	plan := Planner{Rules: rules}.Plan([]NodePods{{Node: newPod("bare").Spec.NodeName, Pods: []*corev1.Pod{newPod("bare", withEmptyDir)}}},
		Facts{})
	var got []string
	for _, w := range plan.Warnings(0) {
		got = append(got, string(w.Reason)+": "+w.Message)
	}
	if diff := cmp.Diff([]string{"RuleWarning: " + unmanagedWarning, "RuleWarning: " + localStorageWarning}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestANilAdditionalRuleDeniesInsteadOfPanicking(t *testing.T) {
	v := Decide(newPod("p", ownedBy("apps/v1", "ReplicaSet")), KubectlRules(KubectlOptions{Additional: []Rule{nil}}))
	if v.Action != Deny || v.Reason != ReasonRuleFailed {
		t.Errorf("got %+v", v)
	}
}
