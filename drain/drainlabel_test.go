package drain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestDrainLabel_ClusterAPIsValues(t *testing.T) {
	const key = "cluster.x-k8s.io/drain"
	cases := map[string]struct {
		pod    *corev1.Pod
		action Action
		reason Reason
	}{
		"skip leaves the pod":            {newPod("p", labeled(key, "skip")), Ignore, ReasonSkipped},
		"in any case":                    {newPod("p", labeled(key, "SKIP")), Ignore, ReasonSkipped},
		"a dash spoils it":               {newPod("p", labeled(key, "sk-ip")), Evict, ReasonEvictable},
		"wait-completed waits":           {newPod("p", labeled(key, "wait-completed")), Wait, ReasonWaitCompleted},
		"without the dash":               {newPod("p", labeled(key, "WaitCompleted")), Wait, ReasonWaitCompleted},
		"the first dash may be anywhere": {newPod("p", labeled(key, "waitcom-pleted")), Wait, ReasonWaitCompleted},
		"a second dash spoils it":        {newPod("p", labeled(key, "wait-com-pleted")), Evict, ReasonEvictable},
		"a completed pod is done": {newPod("p", labeled(key, "wait-completed"), inPhase(corev1.PodSucceeded)), Ignore,
			ReasonCompleted},
		"another value is drained":  {newPod("p", labeled(key, "drain")), Evict, ReasonEvictable},
		"an empty value is drained": {newPod("p", labeled(key, "")), Evict, ReasonEvictable},
		"no label is drained":       {newPod("p"), Evict, ReasonEvictable},
		"a DaemonSet pod is one before all": {newPod("p", labeled(key, "wait-completed"), ownedBy("apps/v1", "DaemonSet")), Ignore,
			ReasonDaemonSetPod},
		"a mirror pod is one before all":         {newPod("p", labeled(key, "wait-completed"), mirror), Ignore, ReasonMirrorPod},
		"a terminating pod is skipped":           {newPod("p", labeled(key, "skip"), terminating), Ignore, ReasonSkipped},
		"a terminating pod is no longer to wait": {newPod("p", labeled(key, "wait-completed"), terminating), Wait, ReasonTerminating},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.pod, ClusterAPIRules(nil, nil))
			if got.Action != tc.action || got.Reason != tc.reason || got.Order != 0 {
				t.Errorf("want %s/%s, got %+v", tc.action, tc.reason, got)
			}
		})
	}
}

func TestDrainLabel_WarnsOfUnknownValues(t *testing.T) {
	rules := with(setOrder(3), drainLabel)
	for value, want := range map[string]Verdict{
		"Skip":          {Action: Ignore, Order: 3, Reason: ReasonSkipped, Message: "a rule leaves the Pod alone"},
		"waitcompleted": {Action: Wait, Reason: ReasonWaitCompleted, Message: "waiting for completion"},
		"never": {
			Action: Evict, Order: 3, Reason: ReasonEvictable,
			Warnings: []string{`label cluster.x-k8s.io/drain has the unknown value "never"`},
		},
	} {
		if diff := cmp.Diff(want, Decide(newPod("p", labeled("cluster.x-k8s.io/drain", value)), rules)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", value, diff)
		}
	}
}
