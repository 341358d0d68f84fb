package drain

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func withGrace(seconds int64) podOption {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// several returns n pods that a budget covers, on a Node.
func several(node, prefix string, n int, options ...podOption) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range n {
		pods = append(pods, newPod(prefix+string(rune('a'+i)), append([]podOption{onNode(node), withGrace(30)}, options...)...))
	}
	return pods
}

func join(lists ...[]*corev1.Pod) []*corev1.Pod {
	var all []*corev1.Pod
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func TestLowerBound(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first := func(p *corev1.Pod) { p.Annotations = map[string]string{"order": "-1"} }
	leaving := func(in time.Duration) podOption {
		return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now.Add(in)} }
	}
	free := labeled("app", "free")
	pdb := types.NamespacedName{Namespace: "default", Name: "pdb"}
	one := newBudget("pdb", 1) // 1 of 3 at once
	cases := map[string]struct {
		reason  string
		a, b    []*corev1.Pod // on two Nodes
		budgets []*policyv1.PodDisruptionBudget
		want    Bound
	}{
		"nothing to do":                    {want: Bound{}},
		"ignored pods cost nothing":        {a: several("a", "p", 2, mirror), want: Bound{}},
		"pods without a budget go at once": {a: several("a", "p", 5), want: Bound{Waves: 1, Time: 30 * time.Second}},
		"the longest grace period of an order": {a: join(several("a", "p", 2), several("a", "q", 1, withGrace(90))),
			want: Bound{Waves: 1, Time: 90 * time.Second}},
		"no grace period is the API's 30 s": {a: several("a", "p", 1, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = nil }),
			want: Bound{Waves: 1, Time: 30 * time.Second}},
		"one after the other behind a budget": {a: several("a", "p", 3), budgets: []*policyv1.PodDisruptionBudget{one},
			want: Bound{Waves: 3, Time: 30 * time.Second, By: pdb}},
		"two at once": {a: several("a", "p", 3),
			budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 0, limits("", "2"), healthy(10, 8, 8))},
			want:    Bound{Waves: 2, Time: 30 * time.Second, By: pdb}},
		"more health than expected opens more": {reason: "pods of a rollout count for currentHealthy", a: several("a", "p", 4),
			budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 2, healthy(3, 2, 4))}, want: Bound{Waves: 2, Time: 30 * time.Second, By: pdb}},
		"two Nodes that share a budget": {a: several("a", "p", 2), b: several("b", "q", 3),
			budgets: []*policyv1.PodDisruptionBudget{one}, want: Bound{Waves: 5, Time: 30 * time.Second, By: pdb}},
		"two Nodes with a budget that fits": {a: several("a", "p", 2), b: several("b", "q", 3),
			budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 5, healthy(10, 5, 10))}, want: Bound{Waves: 1, Time: 30 * time.Second}},
		"orders add up": {a: join(several("a", "p", 2), several("a", "q", 2, free, first)),
			want: Bound{Waves: 2, Time: time.Minute}},
		"Nodes are drained at the same time": {a: join(several("a", "p", 1), several("a", "q", 1, first)),
			b: several("b", "r", 1, withGrace(50)), want: Bound{Waves: 2, Time: time.Minute}},
		"an order adds to what a budget makes": {a: join(several("a", "p", 3), several("a", "q", 1, free, first)),
			budgets: []*policyv1.PodDisruptionBudget{one}, want: Bound{Waves: 4, Time: time.Minute, By: pdb}},
		"a budget over orders is not multiplied": {a: join(several("a", "p", 2), several("a", "q", 2, first)),
			budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 2, healthy(4, 2, 4))}, want: Bound{Waves: 2, Time: time.Minute}},
		"unready pods that may go need no token": {a: several("a", "p", 3, unready), budgets: []*policyv1.PodDisruptionBudget{one},
			want: Bound{Waves: 1, Time: 30 * time.Second}},
		"a stale budget bounds nothing": {a: several("a", "p", 3),
			budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 1, unobserved)}, want: Bound{Waves: 1, Time: 30 * time.Second}},
		"a failed sync bounds nothing": {a: several("a", "p", 3),
			budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 0, syncFailure)}, want: Bound{Waves: 1, Time: 30 * time.Second}},
		"a budget without counts bounds nothing": {a: several("a", "p", 3),
			budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 0, healthy(0, 1, 0))}, want: Bound{Waves: 1, Time: 30 * time.Second}},
		"finished pods go at once and need no time": {a: several("a", "p", 3, inPhase(corev1.PodFailed)), want: Bound{Waves: 1}},
		"finished pods go beside the others": {a: join(several("a", "p", 1), several("a", "q", 1, first, inPhase(corev1.PodFailed))),
			want: Bound{Waves: 1, Time: 30 * time.Second}},
		"terminating pods only take their time": {a: several("a", "p", 2, leaving(20*time.Second)), want: Bound{Time: 20 * time.Second}},
		"terminating pods that are overdue":     {a: several("a", "p", 2, leaving(-time.Hour)), want: Bound{}},
		"terminating pods hold back an order": {a: join(several("a", "p", 2), several("a", "q", 1, first, leaving(10*time.Second))),
			want: Bound{Waves: 1, Time: 40 * time.Second}},
		"a budget that never opens": {a: several("a", "p", 2), b: several("b", "q", 1, free),
			budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 0, limits("", "0"), healthy(3, 3, 3))},
			want:    Bound{Waves: 1, Time: 30 * time.Second, Never: true}},
		"two budgets on one pod": {a: several("a", "p", 2),
			budgets: []*policyv1.PodDisruptionBudget{one, newBudget("other", 1)}, want: Bound{Never: true}},
		"a pod that a rule denies": {a: several("a", "p", 1, annotated("order", "x")), want: Bound{Never: true}},
		"the first by name of equal budgets": {
			a:       join(several("a", "p", 2), several("a", "q", 2, labeled("app", "db"))),
			budgets: []*policyv1.PodDisruptionBudget{newBudget("z", 1), newBudget("pdb", 1, selecting(labelsAre("app", "db")))},
			want:    Bound{Waves: 2, Time: 30 * time.Second, By: pdb},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			plan := Planner{Rules: with(OrderByAnnotation("order"))}.Plan(
				[]NodePods{{Node: "a", Pods: tc.a}, {Node: "b", Pods: tc.b}}, Facts{Now: now, Budgets: tc.budgets})
			if diff := cmp.Diff(tc.want, plan.LowerBound()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLowerBound_PodsThatRulesDeleteNeedNoBudget(t *testing.T) {
	remove := func(*corev1.Pod, Verdict) (Verdict, error) { return Verdict{Action: Delete, Reason: "Own"}, nil }
	wait := When(func(p *corev1.Pod) bool { return p.Name == "qa" }, WaitCompleted)
	plan := Planner{Rules: []Rule{wait, When(func(p *corev1.Pod) bool { return p.Name != "qa" }, remove)}}.Plan(
		[]NodePods{{Node: "a", Pods: join(several("a", "p", 3), several("a", "q", 1))}},
		Facts{Budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 0)}})
	if diff := cmp.Diff(Bound{Waves: 1, Time: 30 * time.Second}, plan.LowerBound()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := (Plan{}).LowerBound(); got != (Bound{}) {
		t.Errorf("an empty plan has no bound, got %+v", got)
	}
}

func TestLowerBound_AcceptedEvictionsAreNotSentAgain(t *testing.T) {
	plan := Planner{}.Plan([]NodePods{{Node: "a", Pods: several("a", "p", 3)}}, Facts{
		Budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 0)},
		Held:    map[types.UID]Hold{"uid-pa": {Reason: ReasonEvictionAccepted}},
	})
	want := Bound{Waves: 2, Time: 30 * time.Second, By: types.NamespacedName{Namespace: "default", Name: "pdb"}}
	if diff := cmp.Diff(want, plan.LowerBound()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLowerBound_NoDrainStaysBelow drains random Nodes in the best world there is: between two waves every pod is gone,
// replaced elsewhere and ready, and every budget allows the most it can.
func TestLowerBound_NoDrainStaysBelow(t *testing.T) {
	equal, above := 0, 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 7))
		budgets := []*policyv1.PodDisruptionBudget{
			newBudget("web", 1+int32(random.IntN(3)), healthy(9, 0, 9)), newBudget("db", 1, selecting(labelsAre("app", "db"))),
		}
		for _, b := range budgets {
			b.Status.ExpectedPods, b.Status.CurrentHealthy = 9, 9
			b.Status.DesiredHealthy = 9 - b.Status.DisruptionsAllowed
		}
		var nodes []NodePods
		for n := range 1 + random.IntN(3) {
			node := NodePods{Node: string(rune('a' + n))}
			for i := range random.IntN(9) {
				options := []podOption{onNode(node.Node), ofPriority(int32(random.IntN(3)))}
				options = append(options, [][]podOption{
					nil, nil, {labeled("app", "db")}, {labeled("app", "db")}, {labeled("app", "free")}, {unready}, {terminating},
					{inPhase(corev1.PodFailed)}, {labeled("cluster.x-k8s.io/drain", "wait-completed")}, {mirror},
				}[random.IntN(10)]...)
				node.Pods = append(node.Pods, newPod(fmt.Sprintf("%s%d", node.Node, i), options...))
			}
			nodes = append(nodes, node)
		}
		planner := Planner{Rules: append([]Rule{OrderByPriority()}, ClusterAPIRules(nil, nil)...)}
		bound := planner.Plan(nodes, Facts{Budgets: budgets}).LowerBound()
		waves := drainAll(t, planner, nodes, budgets)
		switch {
		case bound.Never || waves < bound.Waves:
			t.Fatalf("seed %d: drained in %d waves, the bound was %+v", seed, waves, bound)
		case waves == bound.Waves:
			equal++
		default:
			above++
		}
	}
	if equal < 3*above {
		t.Errorf("the bound was reached %d times and missed %d times", equal, above)
	}
}

// drainAll returns how many waves had evictions.
func drainAll(t *testing.T, planner Planner, nodes []NodePods, budgets []*policyv1.PodDisruptionBudget) int {
	t.Helper()
	waves := 0
	for range 1000 {
		plan := planner.Plan(nodes, Facts{Budgets: budgets})
		if plan.Done() {
			return waves
		}
		gone := map[*corev1.Pod]bool{}
		for _, d := range plan.Decisions {
			gone[d.Pod] = d.Action == Evict || d.Reason == ReasonTerminating || d.Reason == ReasonWaitCompleted
		}
		if len(plan.Evictable()) > 0 {
			waves++
		}
		for i := range nodes {
			nodes[i].Pods = slices.DeleteFunc(nodes[i].Pods, func(p *corev1.Pod) bool { return gone[p] })
		}
	}
	t.Fatal("the drain does not end")
	return 0
}
