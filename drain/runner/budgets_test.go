package runner

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

func TestStep_NodesShareABudget(t *testing.T) {
	g := newRig(t, nil)
	g.budgets.set(1, 10)
	g.pods.put(pod("n1", "a"), pod("n1", "b"), pod("n2", "c"))
	g.start()
	defer g.stop()
	g.step("n1")
	if got := g.step("n2"); len(got.Blockers) != 1 || got.Blockers[0].Reason != drain.ReasonBudgetExhausted {
		t.Fatalf("want n2 to wait for the budget, got %+v", got)
	}
	g.settled(1)
	g.pods.remove("n1", "uid-a")
	g.step("n1") // the status does not show the eviction yet
	g.step("n2")
	g.settled(1)
	g.budgets.set(0, 11)
	g.step("n1")
	g.budgets.set(1, 12)
	g.step("n2")
	g.settled(2)
	g.step("n1")
	g.settled(2)
	g.wantRequests("a", "c")
}

func TestStep_ARefusalClosesTheBudgetUntilItChanges(t *testing.T) {
	g := newRig(t, nil)
	g.runner.SetWorkers(1)
	g.budgets.set(3, 10) // the cache is behind: the server allows none
	g.evictor.answerWith(exhausted)
	g.pods.put(pod("n", "a"), pod("n", "b"), pod("n", "c"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(1)
	got := g.step("n")
	g.settled(1)
	want := []drain.Blocker{{
		Node: "n", Reason: drain.ReasonBudgetExhausted, Count: 3, Since: g.clock.Now(),
		Budgets: []types.NamespacedName{{Namespace: "default", Name: "pdb"}},
		Pods: []PodRef{{Namespace: "default", Name: "a", UID: "uid-a"}, {Namespace: "default", Name: "b", UID: "uid-b"},
			{Namespace: "default", Name: "c", UID: "uid-c"}},
	}}
	for i := range got.Blockers {
		got.Blockers[i].Message = ""
	}
	if diff := cmp.Diff(want, got.Blockers); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	since := g.clock.Now()
	g.clock.Step(time.Second)
	if got := g.step("n"); !got.Blockers[0].Since.Equal(since) {
		t.Errorf("want the blocker's age to be kept, got %s", got.Blockers[0].Since)
	}

	g.evictor.answerWith(nil)
	g.budgets.set(1, 11)
	g.step("n")
	g.settled(2)
	g.wantRequests("a", "a")
}

func TestStep_AClosedBudgetIsProbedOncePerInterval(t *testing.T) {
	g := newRig(t, nil)
	g.budgets.set(0, 10)
	g.evictor.answerWith(exhausted)
	g.pods.put(pod("n1", "a"), pod("n1", "b"), pod("n2", "c"))
	g.start()
	defer g.stop()
	look := func() {
		for _, node := range []string{"n1", "n2", "n1"} {
			if got := g.step(node); got.RequeueAfter <= 0 || got.RequeueAfter > 15*time.Second {
				t.Fatalf("want another look within the probe interval, got %s", got.RequeueAfter)
			}
		}
	}
	look()
	g.clock.Step(14 * time.Second)
	look()
	g.settled(0)
	for probes := 1; probes <= 3; probes++ {
		g.clock.Step(15 * time.Second)
		look()
		g.settled(probes)
		look()
		g.settled(probes)
	}
}

func TestStep_WithoutBudgetsARefusedPodRestsForTheProbeInterval(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Budgets = nil })
	g.evictor.answerWith(exhausted)
	g.pods.put(pod("n", "a"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(1)
	want := "* Pod default/a: cannot evict pod as it would violate the pod's disruption budget. " +
		"The disruption budget pdb needs 8 healthy pods and has 8 currently"
	if got := g.step("n"); got.Message != want {
		t.Fatalf("want %q, got %q", want, got.Message)
	}
	g.clock.Step(15 * time.Second)
	g.step("n")
	g.settled(2)
}

func TestStep_NoMoreThanFourRequestsOfOneBudgetAtOnce(t *testing.T) {
	g := newRig(t, nil)
	g.budgets.set(9, 10)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		g.pods.put(pod("n", name))
	}
	hold := make(chan struct{})
	g.evictor.answerWith(func(context.Context, PodRef) error { <-hold; return nil })
	g.start()
	defer g.stop()
	g.step("n")
	g.eventually("four requests hang", func() bool { return len(g.evictor.names()) == 4 })
	require.Equal(t, 4, g.runner.budgets[types.NamespacedName{Namespace: "default", Name: "pdb"}].inFlight)
	close(hold)
	g.settled(6)
}

func TestStep_ErrorsOfOnePodRestOnlyThatPod(t *testing.T) {
	g := newRig(t, nil)
	g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
		if ref.Name == "a" {
			return apierrors.NewInternalError(errors.New("failed calling webhook"))
		}
		return nil
	})
	g.pods.put(pod("n", "a"), pod("n", "b"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(2)
	for _, rest := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		got := g.step("n")
		if len(got.Blockers) != 1 || got.Blockers[0].Reason != drain.ReasonServerError || got.RequeueAfter != rest {
			t.Fatalf("want a to rest for %s, got %+v", rest, got)
		}
		sent := len(g.evictor.names())
		g.clock.Step(rest)
		g.step("n")
		g.settled(sent + 1)
	}
	g.wantRequests("a", "a", "a", "a", "b")
}

func TestStep_APlanThatTakesItsTimeHoldsNoOtherNodeUp(t *testing.T) {
	g := newRig(t, nil)
	g.pods.put(pod("slow", "a"), pod("quick", "b"))
	judging, goOn := make(chan struct{}), make(chan struct{})
	slow := func(*corev1.Pod, drain.Verdict) (drain.Verdict, error) {
		close(judging)
		<-goOn
		return drain.Verdict{Action: drain.Evict, Reason: drain.ReasonEvictable}, nil
	}
	steps := make(chan error, 2)
	go func() {
		_, err := g.runner.Step(t.Context(), Request{Node: cordoned("slow"), Rules: []drain.Rule{slow}})
		steps <- err
	}()
	<-judging
	go func() {
		_, err := g.runner.Step(t.Context(), Request{Node: cordoned("quick")})
		steps <- err
	}()
	select {
	case err := <-steps:
		require.NoError(t, err)
	case <-time.After(waitLimit):
		t.Error("want the step of a Node not to wait for the plan of another one")
	}
	close(goOn)
	require.NoError(t, <-steps)
}

func TestStep_WhatIsKnownOfBudgetsThatAreGoneIsForgottenWhileNodesDrain(t *testing.T) {
	g := newRig(t, nil)
	g.budgets.set(0, 1)
	g.pods.put(pod("n", "stays"))
	g.start()
	defer g.stop()
	held := g.budgets.list[0]
	for i := range 20 {
		p := pod("n", fmt.Sprintf("p%02d", i))
		p.Namespace = fmt.Sprintf("ns-%02d", i)
		open := *held.DeepCopy()
		open.Namespace, open.Status.DisruptionsAllowed = p.Namespace, 1
		g.pods.put(p)
		g.budgets.replace(held, open)
		g.step("n")
		g.settled(i + 1)
		g.pods.remove("n", p.UID) // and its namespace with it
		g.budgets.replace(held)
		g.step("n")
	}
	for range 8 { // steps come at least once per probe interval
		g.clock.Step(probeInterval)
		g.step("n")
	}
	g.runner.mu.Lock()
	defer g.runner.mu.Unlock()
	require.Len(t, g.runner.budgets, 1, "only that of the pod that stays")
	require.LessOrEqual(t, len(g.runner.nodes["n"].attempts), 1)
	require.False(t, g.runner.budgets[thePDB].probeAt.IsZero(), "a budget that is waited for is not forgotten")
}

func (b *memoryBudgets) replace(list ...policyv1.PodDisruptionBudget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = list
}

func TestBudgetState_IsForgottenWhenNothingWillAskForIt(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, tc := range map[string]struct {
		state budgetState
		want  bool
	}{
		"looked at lately":             {budgetState{lookedAt: ago(59 * time.Second)}, false},
		"not looked at":                {budgetState{lookedAt: ago(time.Minute)}, true},
		"a request is under way":       {budgetState{lookedAt: ago(time.Hour), inFlight: 1}, false},
		"an eviction is accepted":      {budgetState{lookedAt: ago(time.Hour), tokens: tokenOf(accepted, now.Add(1))}, false},
		"an accepted eviction is over": {budgetState{lookedAt: ago(time.Hour), tokens: tokenOf(accepted, now)}, true},
		"an eviction waits to be sent": {budgetState{lookedAt: ago(time.Hour), tokens: tokenOf(queued, time.Time{})}, false},
		"closed by the server":         {budgetState{lookedAt: ago(time.Hour), closedRV: "1", probeAt: now}, true},
	} {
		if got := tc.state.forgotten(now); got != tc.want {
			t.Errorf("%s: want %t, got %t", name, tc.want, got)
		}
	}
}

func tokenOf(state attemptState, until time.Time) map[types.UID]*attempt {
	return map[types.UID]*attempt{"uid": {state: state, retryAt: until}}
}
