package runner

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/drain"
)

var thePDB = types.NamespacedName{Namespace: "default", Name: "pdb"}

func (b *memoryBudgets) replace(list ...*policyv1.PodDisruptionBudget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = list
}

// shut makes the budget one that can never open.
func (b *memoryBudgets) shut() {
	b.set(0, 10)
	b.list[0].Spec.MaxUnavailable.IntVal = 0
	b.list[0].Status.DesiredHealthy = 9
}

// double lays a second budget over the pods of the first.
func (b *memoryBudgets) double() {
	b.set(5, 10)
	second := b.list[0].DeepCopy()
	second.Name = "second"
	b.list = append(b.list, second)
}

// hopelessBudgets can never let a Pod go.
func hopelessBudgets() map[string]hopelessBudget {
	return map[string]hopelessBudget{
		"a budget that can never open": {(*memoryBudgets).shut, exhausted(), drain.ReasonBudgetNeverAllows},
		"two budgets over one pod":     {(*memoryBudgets).double, twoBudgets(), drain.ReasonMultipleBudgets},
	}
}

type hopelessBudget struct {
	budgets func(*memoryBudgets)
	answer  error
	reason  drain.Reason
}

func TestSharedBudget(t *testing.T) {
	g := newRig(t)
	g.budgets.set(1, 10)
	g.on("n1", "a", "b")
	g.on("n2", "c")
	g.step("n1")
	g.blocked("n2", drain.ReasonBudgetExhausted)
	require.Equal(t, 1, g.send())
	g.gone("n1", "a")
	g.step("n1") // the status does not show the eviction yet
	g.step("n2")
	require.Zero(t, g.send())
	g.budgets.set(0, 11)
	g.step("n1")
	g.budgets.set(1, 12)
	g.step("n2")
	require.Equal(t, 1, g.send())
	g.step("n1")
	require.Zero(t, g.send())
	g.wantRequests("a", "c")
}

func TestBlockers(t *testing.T) {
	g := newRig(t)
	g.budgets.set(3, 10) // the cache is behind: the server allows none
	g.answer(exhausted())
	g.on("n", "a", "b", "c")
	g.step("n")
	require.Equal(t, 1, g.send())
	got := g.step("n").Blockers
	want := []drain.Blocker{{
		Node: "n", Reason: drain.ReasonBudgetExhausted, Count: 3, Since: g.clock.Now(), Budgets: []types.NamespacedName{thePDB},
		Pods: []PodRef{drain.RefOf(pod("n", "a")), drain.RefOf(pod("n", "b")), drain.RefOf(pod("n", "c"))},
	}}
	for i := range got {
		got[i].Message = ""
	}
	require.Empty(t, cmp.Diff(want, got))
	g.clock.Step(time.Second)
	require.Equal(t, want[0].Since, g.step("n").Blockers[0].Since)
}

func TestClosedBudget(t *testing.T) {
	for name, allowed := range map[string]int32{"as the cache shows": 0, "as a refusal shows, and never the cache": 3} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.budgets.set(allowed, 10)
			g.answer(exhausted())
			g.on("n1", "a", "b")
			g.on("n2", "c")
			g.step("n1")
			g.step("n2")
			require.EqualValues(t, min(1, allowed), g.send())
			look := func() (sent int) {
				for _, node := range []string{"n1", "n2", "n1"} {
					got := g.blocked(node, drain.ReasonBudgetExhausted)
					require.Positive(t, got.RequeueAfter)
					require.LessOrEqual(t, got.RequeueAfter, 15*time.Second)
					sent += g.send()
				}
				return sent
			}
			require.Zero(t, look())
			g.clock.Step(14 * time.Second)
			require.Zero(t, look())
			for range 4 {
				g.clock.Step(15 * time.Second)
				require.Equal(t, 1, look(), "a probe in each interval")
				require.Zero(t, look())
			}
			g.answer(nil)
			g.budgets.set(1, 11)
			g.step("n1")
			g.step("n2")
			require.Equal(t, 1, g.send(), "it has changed")
		})
	}
	t.Run("probes do not pile up while nothing is sent", func(t *testing.T) {
		g := newRig(t)
		g.budgets.set(0, 10)
		g.on("n", "a", "b", "c")
		for range 5 {
			g.step("n")
			g.clock.Step(15 * time.Second)
		}
		require.Equal(t, []types.UID{"uid-a"}, g.runner.nodes["n"].queue)
	})
	t.Run("its refusal is not what shortens a later rest", func(t *testing.T) {
		g := newRig(t)
		g.budgets.set(1, 10)
		g.answer(exhausted())
		g.on("n", "a")
		g.step("n")
		g.send()
		g.budgets.set(1, 11)
		g.answer(apierrors.NewTimeoutError(`couldn't update PodDisruptionBudget "pdb" due to conflicts`, 10))
		g.step("n")
		require.Equal(t, 1, g.send())
		got := g.step("n")
		require.Equal(t, 1, got.Counts.Blocked)
		require.GreaterOrEqual(t, got.RequeueAfter, 10*time.Second)
	})
}

func TestUnreadBudgets(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Budgets = nil })
	g.answer(exhausted())
	g.on("n", "a")
	g.step("n")
	require.Equal(t, 1, g.send())
	require.Equal(t, "* Pod default/a: cannot evict pod as it would violate the pod's disruption budget. "+
		"The disruption budget pdb needs 8 healthy pods and has 8 currently", g.step("n").Message)
	require.Zero(t, g.send())
	g.clock.Step(15 * time.Second)
	g.step("n")
	require.Equal(t, 1, g.send())
}

func TestHopelessPod(t *testing.T) {
	for name, tc := range hopelessBudgets() {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			tc.budgets(g.budgets)
			g.answer(tc.answer)
			g.on("n", "a")
			began := g.clock.Now()
			first := g.step("n")
			same := func() {
				t.Helper()
				require.Empty(t, cmp.Diff(first, g.blocked("n", tc.reason)), "the same report %s after the start", g.clock.Since(began))
			}
			var requested []time.Duration
			for g.clock.Since(began) < 20*time.Minute {
				same()
				for range g.send() {
					requested = append(requested, g.clock.Since(began))
				}
				same()
				g.clock.Step(15 * time.Second)
				same() // also when it is time for a probe
			}
			require.Equal(t, []time.Duration{0, time.Minute, 3 * time.Minute, 7 * time.Minute, 12 * time.Minute, 17 * time.Minute}, requested)
		})
	}
	t.Run("a failure is no answer, and is repeated", func(t *testing.T) {
		g := newRig(t)
		g.budgets.shut()
		g.answer(internal())
		g.on("n", "a")
		g.step("n")
		require.Equal(t, 1, g.send())
		g.blocked("n", drain.ReasonServerError)
		g.clock.Step(time.Second)
		g.step("n")
		require.Equal(t, 1, g.send())
	})
	t.Run("a budget that opens after all is used at once", func(t *testing.T) {
		g := newRig(t)
		g.budgets.shut()
		g.answer(exhausted())
		g.on("n", "a", "b")
		g.step("n")
		require.Equal(t, 2, g.send())
		g.answer(nil)
		g.budgets.set(1, 11)
		require.Equal(t, 1, g.blocked("n", drain.ReasonBudgetExhausted).Counts.Evictable)
		require.Equal(t, 1, g.send())
		g.wantRequests("a", "a", "b")
	})
}

func TestBudgetInFlight(t *testing.T) {
	cases := hopelessBudgets()
	cases["an open budget"] = hopelessBudget{budgets: func(b *memoryBudgets) { b.set(10, 10) }}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			tc.budgets(g.budgets)
			blocked := 0
			if tc.reason != "" {
				blocked = 5
			}
			for i := range 10 {
				g.on(fmt.Sprintf("n%d", i%2), fmt.Sprintf("p%d", i))
			}
			for range 3 { // what waits for its turn is reported as before, and not taken back
				for _, node := range []string{"n0", "n1"} {
					require.Equal(t, blocked, g.step(node).Counts.Blocked)
					require.Len(t, g.runner.nodes[node].queue, 5)
				}
			}
			g.runner.SetWorkers(4)
			requests := g.picked()
			require.Len(t, requests, 4)
			require.Equal(t, blocked, g.step("n0").Counts.Blocked, "what is requested is still blocked")
			for _, a := range requests {
				g.runner.finish(a, tc.answer, false)
			}
			g.answer(tc.answer)
			require.Equal(t, 6, g.send(), "the refusal of one says nothing about the others: a webhook looks at each")
			require.Equal(t, blocked, g.step("n1").Counts.Blocked)
			require.Zero(t, g.send())
		})
	}
}

func TestVirtualMachine(t *testing.T) {
	g := newRig(t)
	own := map[string]string{"kubevirt.io/created-by": "x"}
	g.budgets.replace(&policyv1.PodDisruptionBudget{ // KubeVirt makes one for each virtual machine
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubevirt-disruption-budget-x", ResourceVersion: "1"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: own},
		},
		Status: policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, DesiredHealthy: 1, CurrentHealthy: 1},
	})
	vm := pod("n", "vm")
	vm.Labels = own
	g.pods.put(vm, pod("n", "web"))
	g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
		if ref.Name == "vm" {
			return evacuates(ref.Name)
		}
		return nil
	})
	g.blocked("n", drain.ReasonBudgetNeverAllows)
	require.Equal(t, 2, g.send())
	require.Contains(t, g.blocked("n", drain.ReasonAdmissionDenied).Message, "Eviction triggered evacuation of VMI")
	g.clock.Step(15 * time.Second)
	g.blocked("n", drain.ReasonAdmissionDenied) // also while it is requested again
	require.Equal(t, 1, g.send())
	g.wantRequests("vm", "vm", "web")
	g.gone("n", "vm", "web") // the virtual machine runs elsewhere
	require.True(t, g.step("n").Done)
}

func TestForgottenBudgets(t *testing.T) {
	g := newRig(t)
	g.budgets.set(0, 1)
	g.on("n", "stays")
	held := g.budgets.list[0]
	for i := range 20 {
		p := pod("n", fmt.Sprintf("p%02d", i))
		p.Namespace = fmt.Sprintf("ns-%02d", i)
		open := held.DeepCopy()
		open.Namespace, open.Status.DisruptionsAllowed = p.Namespace, 1
		g.pods.put(p)
		g.budgets.replace(held, open)
		g.step("n")
		require.Equal(t, 1, g.send())
		g.pods.remove("n", p.UID) // and its namespace with it
		g.budgets.replace(held)
		g.step("n")
	}
	for range 8 { // steps come at least once per probe interval
		g.clock.Step(probeInterval)
		g.step("n")
	}
	require.Len(t, g.runner.budgets, 1, "only that of the pod that stays")
	require.LessOrEqual(t, len(g.runner.nodes["n"].attempts), 1)
	require.False(t, g.runner.budgets[thePDB].probeAt.IsZero(), "a budget that is waited for is not forgotten")
}

func TestForgotten(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	tokenOf := func(state attemptState, until time.Time) map[types.UID]*attempt {
		return map[types.UID]*attempt{"uid": {state: state, retryAt: until}}
	}
	for name, tc := range map[string]struct {
		state budgetState
		want  bool
	}{
		"looked at lately":             {budgetState{lookedAt: ago(59 * time.Second)}, false},
		"not looked at":                {budgetState{lookedAt: ago(time.Minute)}, true},
		"an eviction is accepted":      {budgetState{lookedAt: ago(time.Hour), tokens: tokenOf(accepted, now.Add(1))}, false},
		"an accepted eviction is over": {budgetState{lookedAt: ago(time.Hour), tokens: tokenOf(accepted, now)}, true},
		"an eviction waits to be sent": {budgetState{lookedAt: ago(time.Hour), tokens: tokenOf(queued, time.Time{})}, false},
		"closed by the server":         {budgetState{lookedAt: ago(time.Hour), closedRV: "1", probeAt: now}, true},
	} {
		require.Equal(t, tc.want, tc.state.forgotten(now), name)
	}
}
