package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/drain"
)

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
	b.list = append(b.list, *second)
}

// answered waits until nothing is queued or under way.
func (g *rig) answered() {
	g.t.Helper()
	g.eventually("everything that was queued is answered", func() bool {
		g.runner.mu.Lock()
		defer g.runner.mu.Unlock()
		left := g.runner.inFlight
		for _, ns := range g.runner.nodes {
			left += len(ns.queue)
		}
		return left == 0
	})
}

func TestStep_APodThatBudgetsCanNeverLetGoIsAskedForOnceAndThenProbed(t *testing.T) {
	cases := map[string]struct {
		budgets func(*memoryBudgets)
		answer  func() error
		reason  drain.Reason
	}{
		"a budget that can never open": {(*memoryBudgets).shut, func() error { return exhausted(t.Context(), PodRef{}) },
			drain.ReasonBudgetNeverAllows},
		"two budgets over one pod": {(*memoryBudgets).double, twoBudgets, drain.ReasonMultipleBudgets},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			tc.budgets(g.budgets)
			began := g.clock.Now()
			asked := make(chan time.Duration, 100)
			g.evictor.answerWith(func(context.Context, PodRef) error { asked <- g.clock.Since(began); return tc.answer() })
			g.pods.put(pod("n", "a"))
			g.start()
			defer g.stop()
			first := g.step("n")
			same := func() {
				t.Helper()
				got := g.step("n")
				if diff := cmp.Diff(first, got); len(got.Blockers) != 1 || got.Blockers[0].Reason != tc.reason || diff != "" {
					t.Fatalf("want the same report all the time, %s after the start (-want +got):\n%s", g.clock.Since(began), diff)
				}
			}
			for g.clock.Since(began) < 20*time.Minute {
				same() // perhaps while the request is under way
				g.answered()
				same()
				g.clock.Step(15 * time.Second)
				same() // also when it is time for a probe
			}
			g.answered()
			close(asked)
			want := []time.Duration{0, time.Minute, 3 * time.Minute, 7 * time.Minute, 12 * time.Minute, 17 * time.Minute}
			if diff := cmp.Diff(want, slices.Collect(received(asked))); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func received[T any](from <-chan T) func(yield func(T) bool) {
	return func(yield func(T) bool) {
		for v := range from {
			if !yield(v) {
				return
			}
		}
	}
}

func TestStep_EveryPodBehindABudgetThatCanNeverOpenIsAskedForFourAtOnce(t *testing.T) {
	for name, budgets := range map[string]func(*memoryBudgets){"one budget": (*memoryBudgets).shut, "two": (*memoryBudgets).double} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			budgets(g.budgets)
			want := make([]string, 0, 10)
			for i := range 10 {
				want = append(want, fmt.Sprintf("p%d", i))
				g.pods.put(pod(fmt.Sprintf("n%d", i%2), want[i]))
			}
			refuse := make(chan struct{})
			g.evictor.answerWith(func(ctx context.Context, ref PodRef) error {
				<-refuse
				if name == "two" {
					return twoBudgets()
				}
				return exhausted(ctx, ref)
			})
			for range 3 { // what waits for its turn is reported as before, and not taken back
				for _, node := range []string{"n0", "n1"} {
					got := g.step(node)
					require.Equal(t, 5, got.Counts.Blocked)
					require.Len(t, g.runner.nodes[node].queue, 5)
				}
			}
			g.start()
			defer g.stop()
			g.eventually("four requests hang", func() bool { return len(g.evictor.names()) == 4 })
			require.Equal(t, 5, g.step("n0").Counts.Blocked, "what is asked for is still blocked")
			require.Equal(t, 4, g.inFlight())
			close(refuse)
			g.settled(10) // the refusal of one says nothing about the others: a webhook looks at each
			g.wantRequests(want...)
			require.Equal(t, 5, g.step("n1").Counts.Blocked)
			g.settled(10)
		})
	}
}

func TestStep_AVirtualMachineBehindABudgetOfItsOwnIsMigrated(t *testing.T) {
	g := newRig(t, nil)
	least := intstr.FromInt32(1)
	g.budgets.list = []policyv1.PodDisruptionBudget{{ // KubeVirt makes one for each virtual machine
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubevirt-disruption-budget-x", ResourceVersion: "1"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubevirt.io/created-by": "x"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, DesiredHealthy: 1, CurrentHealthy: 1},
	}}
	vm := pod("n", "vm")
	vm.Labels = map[string]string{"kubevirt.io/created-by": "x"}
	g.pods.put(vm, pod("n", "web"))
	g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
		if ref.Name == "vm" {
			return evacuates(ref)
		}
		return nil
	})
	g.start()
	defer g.stop()
	if got := g.step("n"); len(got.Blockers) != 1 || got.Blockers[0].Reason != drain.ReasonBudgetNeverAllows {
		t.Fatalf("want the budget to be named at first, got %+v", got.Blockers)
	}
	g.settled(2)
	denied := func() {
		t.Helper()
		if got := g.step("n"); len(got.Blockers) != 1 || got.Blockers[0].Reason != drain.ReasonAdmissionDenied {
			t.Fatalf("want what the webhook says, got %+v", got.Blockers)
		}
	}
	denied()
	g.clock.Step(15 * time.Second)
	denied() // also while it is asked again
	g.settled(3)
	g.wantRequests("vm", "vm", "web")
	g.pods.remove("n", "uid-vm") // the virtual machine runs elsewhere
	g.pods.remove("n", "uid-web")
	require.True(t, g.step("n").Done)
}

func TestStep_ABudgetThatOpensAfterAllIsUsedAtOnce(t *testing.T) {
	g := newRig(t, nil)
	g.budgets.shut()
	g.evictor.answerWith(exhausted)
	g.pods.put(pod("n", "a"), pod("n", "b"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(2)
	g.evictor.answerWith(nil)
	g.budgets.set(1, 11)
	got := g.step("n")
	require.Equal(t, 1, got.Counts.Evictable)
	require.Equal(t, drain.ReasonBudgetExhausted, got.Blockers[0].Reason)
	g.settled(3)
	g.wantRequests("a", "a", "b")
}

func TestStep_AProbeThatFailedIsNoAnswerAndIsRepeated(t *testing.T) {
	g := newRig(t, nil)
	g.budgets.shut()
	g.evictor.answerWith(func(context.Context, PodRef) error {
		return apierrors.NewInternalError(errors.New("failed calling webhook"))
	})
	g.pods.put(pod("n", "a"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(1)
	require.Equal(t, drain.ReasonServerError, g.step("n").Blockers[0].Reason)
	g.clock.Step(time.Second)
	g.step("n")
	g.settled(2)
}
