package drain

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestDefaultRules(t *testing.T) {
	cases := map[string]struct {
		pod    *corev1.Pod
		action Action
		reason Reason
	}{
		"a running pod is evicted":                 {newPod("p"), Evict, ReasonEvictable},
		"a pending pod is evicted":                 {newPod("p", inPhase(corev1.PodPending)), Evict, ReasonEvictable},
		"a finished pod is evicted":                {newPod("p", inPhase(corev1.PodFailed)), Evict, ReasonFinished},
		"a terminating pod is waited for":          {newPod("p", terminating), Wait, ReasonTerminating},
		"a terminating finished pod is waited for": {newPod("p", terminating, inPhase(corev1.PodSucceeded)), Wait, ReasonTerminating},
		"a mirror pod is ignored":                  {newPod("p", mirror), Ignore, ReasonMirrorPod},
		"a terminating mirror pod is ignored":      {newPod("p", mirror, terminating), Ignore, ReasonMirrorPod},
		"a DaemonSet pod is ignored":               {newPod("p", ownedBy("apps/v1", "DaemonSet")), Ignore, ReasonDaemonSetPod},
		"a failed DaemonSet pod is ignored": {newPod("p", ownedBy("apps/v1", "DaemonSet"), inPhase(corev1.PodFailed)), Ignore,
			ReasonDaemonSetPod},
		"a terminating DaemonSet pod is ignored":      {newPod("p", ownedBy("apps/v1", "DaemonSet"), terminating), Ignore, ReasonDaemonSetPod},
		"a DaemonSet of another group is nothing":     {newPod("p", ownedBy("apps.kruise.io/v1", "DaemonSet")), Evict, ReasonEvictable},
		"a pod of a ReplicaSet is evicted":            {newPod("p", ownedBy("apps/v1", "ReplicaSet")), Evict, ReasonEvictable},
		"an unparsable owner apiVersion is no reason": {newPod("p", ownedBy("a/b/c", "DaemonSet")), Evict, ReasonEvictable},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.pod.DeepCopy()
			got := Decide(tc.pod, DefaultRules())
			if got.Action != tc.action || got.Reason != tc.reason {
				t.Errorf("got %s/%s, want %s/%s", got.Action, got.Reason, tc.action, tc.reason)
			}
			if diff := cmp.Diff(before, tc.pod); diff != "" {
				t.Errorf("the pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestDecide_NoLaterRuleOverwritesADenial(t *testing.T) {
	allow := func(*corev1.Pod, Verdict) (Verdict, error) { return Verdict{Action: Evict, Reason: "Allowed"}, nil }
	fail := func(*corev1.Pod, Verdict) (Verdict, error) {
		return Verdict{Action: Evict}, errors.New("lookup failed")
	}
	deny := func(*corev1.Pod, Verdict) (Verdict, error) { return Verdict{Action: Deny, Reason: "Mine"}, nil }
	quiet := func(_ *corev1.Pod, prev Verdict) (Verdict, error) { return prev, nil }
	strange := func(*corev1.Pod, Verdict) (Verdict, error) { return Verdict{Action: Deny + 1}, nil }

	cases := map[string]struct {
		rules []Rule
		want  Verdict
	}{
		"an error is final":                    {[]Rule{fail, allow}, Verdict{Action: Deny, Reason: ReasonRuleFailed, Message: "lookup failed"}},
		"an error beats an earlier permission": {[]Rule{allow, fail}, Verdict{Action: Deny, Reason: ReasonRuleFailed, Message: "lookup failed"}},
		"a denial is final":                    {[]Rule{deny, allow}, Verdict{Action: Deny, Reason: "Mine"}},
		"silence denies": {[]Rule{quiet},
			Verdict{Action: Deny, Reason: ReasonNoVerdict, Message: "no drain rule decided about the pod"}},
		"no rules deny": {nil,
			Verdict{Action: Deny, Reason: ReasonNoVerdict, Message: "no drain rule decided about the pod"}},
		"an action of a later version denies": {[]Rule{strange},
			Verdict{Action: Deny, Reason: ReasonNoVerdict, Message: "no drain rule decided about the pod"}},
		"a later rule may override permissions": {[]Rule{quiet, allow, deny}, Verdict{Action: Deny, Reason: "Mine"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Decide(newPod("p"), tc.rules)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
