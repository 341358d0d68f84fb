package drain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func finalized(names ...string) podOption { return func(p *corev1.Pod) { p.Finalizers = names } }

func withEmptyDir(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
}

func TestPermanent_NamesWhatWaitingDoesNotRemove(t *testing.T) {
	closed := newBudget("closed", 0, limits("", "0"), healthy(3, 3, 3))
	late := func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if pod.Name == "late" {
			prev.Order = 1
		}
		return prev, nil
	}
	wait := when(func(p *corev1.Pod) bool { return p.Name == "job" || p.Name == "server" }, waitCompleted)
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
			pods: []*corev1.Pod{newPod("server", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](60) })},
		},
		"a rule denies": {
			pods: []*corev1.Pod{newPod("a", annotated("order", "x"))},
			want: []string{"RuleFailed [] 1: change the Pod, or the rules of the drain"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			plan := Planner{Rules: with(late, orderInText, wait)}.Plan(
				[]NodePods{{Node: testNode, Pods: tc.pods}}, Facts{Budgets: tc.budgets, Held: tc.held})
			var got []string
			for _, o := range plan.Permanent(0) {
				require.NotEmpty(t, o.Message)
				require.Equal(t, testNode, o.Node)
				text := string(o.Reason) + " ["
				for i, b := range o.Budgets {
					if i > 0 {
						text += " "
					}
					text += b.String()
				}
				got = append(got, text+"] "+string(rune('0'+o.Count))+": "+o.Remedy)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestPermanent_SaysWhatOpensTheBudget(t *testing.T) {
	for want, budget := range map[string]*policyv1.PodDisruptionBudget{
		"with maxUnavailable 0 can":     newBudget("b", 0, limits("", "0"), healthy(3, 3, 3)),
		"with maxUnavailable 0% can":    newBudget("b", 0, limits("", "0%"), healthy(3, 3, 3)),
		"with minAvailable 100% can":    newBudget("b", 0, limits("100%", ""), healthy(3, 3, 3)),
		"with minAvailable 90% can":     newBudget("b", 0, limits("90%", ""), healthy(3, 3, 3)),
		"with minAvailable 3 can never": newBudget("b", 0, limits("3", ""), healthy(3, 3, 3)),
	} {
		t.Run(want, func(t *testing.T) {
			plan := Planner{}.Plan([]NodePods{{Node: testNode, Pods: []*corev1.Pod{newPod("a")}}},
				Facts{Budgets: []*policyv1.PodDisruptionBudget{budget}})
			got := plan.Permanent(0)
			require.Len(t, got, 1)
			require.Equal(t, openBudget, got[0].Remedy)
			require.Contains(t, got[0].Message, want)
			require.Contains(t, got[0].Message, "can never allow one while it covers 3 pods; "+openBudget)
		})
	}
}

func TestWarnings_SayWhatIsLost(t *testing.T) {
	owned := ownedBy("apps/v1", "ReplicaSet")
	late := when(func(p *corev1.Pod) bool { return p.Name == "late" }, setOrder(1))
	pods := []*corev1.Pod{
		newPod("bare"), newPod("late", owned, withEmptyDir), newPod("both", withEmptyDir),
		newPod("odd", owned, labeled("cluster.x-k8s.io/drain", "no")),
		newPod("done", withEmptyDir, inPhase(corev1.PodSucceeded)), newPod("going", withEmptyDir, terminating),
		newPod("static", mirror, withEmptyDir), newPod("fine", owned),
	}
	rules := append([]Rule{late}, ClusterAPIRules(nil, nil)...)
	plan := Planner{Rules: rules}.Plan([]NodePods{{Node: testNode, Pods: pods}}, Facts{})
	ref := func(name string) PodRef {
		return PodRef{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}
	}
	want := []Blocker{
		{Node: testNode, Reason: ReasonLocalData, Message: "evicting Pod with local storage", Pods: []PodRef{ref("both")}, Count: 2},
		{Node: testNode, Reason: ReasonRuleWarning, Message: `label cluster.x-k8s.io/drain has the unknown value "no"`,
			Pods: []PodRef{ref("odd")}, Count: 1},
		{Node: testNode, Reason: ReasonUnmanaged, Message: "evicting Pod that has no controller", Pods: []PodRef{ref("bare")}, Count: 2},
	}
	if diff := cmp.Diff(want, plan.Warnings(1)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	require.Empty(t, plan.Permanent(0), "a warning is no obstacle")
}
