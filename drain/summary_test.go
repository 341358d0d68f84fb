package drain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestSummary(t *testing.T) {
	t.Run("has the lines of Cluster API", func(t *testing.T) {
		rules := with(named(setOrder(10), "late1"), named(func(*corev1.Pod, Verdict) (Verdict, error) {
			return Verdict{Action: Wait, Reason: "WaitCompleted"}, nil
		}, "job"))
		other := func(p *corev1.Pod) { p.Labels = nil }
		facts := budgeted(newBudget("pdb", 0))
		facts.Held = map[types.UID]Hold{
			"uid-webhook": {Reason: ReasonForbidden, Message: `admission webhook "x" denied the request`},
			"uid-sent":    {Reason: ReasonEvictionRequested},
		}
		require.Equal(t, `* Pods default/t1, default/t2, default/t3, ... (2 more): deletionTimestamp set, but still not removed from the Node
* Pod default/sent: eviction requested
* Pods default/a, default/b: cannot evict pod as it would violate the pod's disruption budget. `+
			`The disruption budget pdb needs 2 healthy pods and has 2 currently
* Pod default/webhook: failed to evict Pod, admission webhook "x" denied the request
* Pod default/job: waiting for completion
After above Pods have been removed from the Node, the following Pods will be evicted: default/late1`,
			planOf(rules, facts, newPod("t5", terminating), newPod("t1", terminating), newPod("t2", terminating), newPod("t4", terminating),
				newPod("t3", terminating), newPod("a"), newPod("b"), newPod("late1", other), newPod("job", other), newPod("webhook", other),
				newPod("sent", other)).Summary())
	})
	t.Run("has no requests of a plan that was not carried out", func(t *testing.T) {
		remove := named(func(*corev1.Pod, Verdict) (Verdict, error) { return Verdict{Action: Delete, Reason: "Late"}, nil }, "b")
		facts := Facts{Held: map[types.UID]Hold{"uid-c": {Reason: ReasonEvictionRequested}}}
		require.Equal(t, "* Pod default/c: eviction requested\n* Pod default/a: to be evicted\n* Pod default/b: to be deleted",
			planOf([]Rule{remove, evictRest}, facts, newPod("a"), newPod("b"), newPod("c")).Summary())
	})
	t.Run("is bounded, and the same each time", func(t *testing.T) {
		var pods []*corev1.Pod
		held := map[types.UID]Hold{}
		for i := range 300 {
			pods = append(pods, newPod(fmt.Sprintf("p%03d", i)))
			held[pods[i].UID] = Hold{Reason: ReasonServerError, Message: fmt.Sprintf("%03d %s", i, strings.Repeat("ü", 5000))}
		}
		plan := planOf(nil, Facts{Held: held}, pods...)
		got := plan.Summary()
		require.Equal(t, 5, strings.Count(got, "\n"))
		require.LessOrEqual(t, len(got), 4096)
		require.True(t, strings.HasSuffix(got, "* 295 Pods with other issues"), got)
		require.Equal(t, got, plan.Summary())
	})
}

func finalized(names ...string) podOption { return func(p *corev1.Pod) { p.Finalizers = names } }

func withEmptyDir(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
}

func TestPermanent(t *testing.T) {
	closed := newBudget("closed", 0, limits("", "0"), healthy(3, 3, 3))
	late, wait := named(setOrder(1), "late"), named(waitCompleted, "job", "server")
	other := labeled("app", "other")
	cases := map[string]struct {
		reason  string
		pods    []*corev1.Pod
		budgets []*policyv1.PodDisruptionBudget
		held    map[types.UID]Hold
		want    []string
	}{
		"nothing stands in the way": {pods: []*corev1.Pod{newPod("a")}, budgets: []*policyv1.PodDisruptionBudget{newBudget("b", 1)}},
		"a budget that is closed for now is no obstacle": {
			pods: []*corev1.Pod{newPod("a")}, budgets: []*policyv1.PodDisruptionBudget{newBudget("b", 0)},
		},
		"a budget that never opens, on pods of every order": {
			pods: []*corev1.Pod{newPod("a"), newPod("late")}, budgets: []*policyv1.PodDisruptionBudget{closed},
			want: []string{"BudgetNeverAllows [default/closed] 2: raise maxUnavailable, lower minAvailable or add replicas"},
		},
		"also behind a hold": {
			pods: []*corev1.Pod{newPod("a")}, budgets: []*policyv1.PodDisruptionBudget{closed},
			held: map[types.UID]Hold{"uid-a": {Reason: ReasonThrottled}},
			want: []string{"BudgetNeverAllows [default/closed] 1: raise maxUnavailable, lower minAvailable or add replicas"},
		},
		"but not for a pod that is on its way": {
			pods: []*corev1.Pod{newPod("a"), newPod("b", terminating)}, budgets: []*policyv1.PodDisruptionBudget{closed},
			held: map[types.UID]Hold{"uid-a": {Reason: ReasonEvictionAccepted}},
		},
		"nor for an unready pod that may go": {
			pods:    []*corev1.Pod{newPod("a", unready)},
			budgets: []*policyv1.PodDisruptionBudget{closed},
		},
		"nor for pending and finished pods": {
			pods:    []*corev1.Pod{newPod("a", inPhase(corev1.PodPending)), newPod("b", inPhase(corev1.PodFailed))},
			budgets: []*policyv1.PodDisruptionBudget{closed, newBudget("second", 1)},
		},
		"two budgets on one pod": {
			pods: []*corev1.Pod{newPod("late"), newPod("a")}, budgets: []*policyv1.PodDisruptionBudget{newBudget("z", 9), newBudget("b", 9)},
			want: []string{"MultipleBudgets [default/b default/z] 2: " +
				"let one budget select the Pod: change the selectors or the Pod's labels, or delete the others"},
		},
		"finalizers before and during termination": {
			pods: []*corev1.Pod{newPod("a", other, finalized("x.io/b", "x.io/a")), newPod("b", terminating, finalized("x.io/a", "x.io/b"))},
			want: []string{"Finalizer [] 2: their controller has to remove them; remove them by hand if it no longer runs"},
		},
		"finalizers of Kubernetes' own controllers, and of pods that stay": {
			pods: []*corev1.Pod{
				newPod("a", finalized("batch.kubernetes.io/job-tracking", metav1.FinalizerDeleteDependents)),
				newPod("ds", ownedBy("apps/v1", "DaemonSet"), finalized("x.io/a")),
			},
		},
		"a pod that never completes": {
			reason: "restartPolicy Always, unless there is a deadline",
			pods: []*corev1.Pod{
				newPod("server"),
				newPod("job", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }),
			},
			want: []string{"NeverCompletes [] 1: delete the Pod when it may go, or let it be evicted: " +
				"change its drain label or the MachineDrainRule"},
		},
		"a deadline ends a pod": {
			pods: []*corev1.Pod{newPod("server", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(60)) })},
		},
		"a rule denies": {
			pods: []*corev1.Pod{newPod("a", annotated("order", "x"))},
			want: []string{"RuleFailed [] 1: change the Pod, or the rules of the drain"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			plan := planOf(with(late, orderInText, wait), Facts{Budgets: tc.budgets, Held: tc.held}, tc.pods...)
			var got []string
			for _, o := range plan.Permanent() {
				require.NotEmpty(t, o.Message)
				require.Equal(t, testNode, o.Node)
				got = append(got, fmt.Sprintf("%s %v %d: %s", o.Reason, o.Budgets, o.Count, o.Remedy))
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestWarnings(t *testing.T) {
	owned := ownedBy("apps/v1", "ReplicaSet")
	pods := []*corev1.Pod{
		newPod("bare"), newPod("late", owned, withEmptyDir), newPod("both", withEmptyDir),
		newPod("odd", owned, labeled("cluster.x-k8s.io/drain", "no")),
		newPod("done", withEmptyDir, inPhase(corev1.PodSucceeded)), newPod("going", withEmptyDir, terminating),
		newPod("static", mirror, withEmptyDir), newPod("fine", owned),
	}
	plan := planOf(append([]Rule{named(setOrder(1), "late")}, ClusterAPIRules(nil, nil)...), Facts{}, pods...)
	ref := func(name string) PodRef {
		return PodRef{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}
	}
	want := []Blocker{
		{Node: testNode, Reason: ReasonLocalData, Message: "evicting Pod with local storage", Pods: []PodRef{ref("both"), ref("late")}, Count: 2},
		{Node: testNode, Reason: ReasonRuleWarning, Message: `label cluster.x-k8s.io/drain has the unknown value "no"`,
			Pods: []PodRef{ref("odd")}, Count: 1},
		{Node: testNode, Reason: ReasonUnmanaged, Message: "evicting Pod that has no controller",
			Pods: []PodRef{ref("bare"), ref("both")}, Count: 2},
	}
	require.Equal(t, want, plan.Warnings())
	require.Empty(t, plan.Permanent(), "a warning is no obstacle")
}
