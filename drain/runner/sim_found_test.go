package runner

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// What the simulation found, each as small as it gets.

func TestDispatch_TheLongestRetryAfterCounts(t *testing.T) {
	g := newRig(t, nil)
	seconds, hold := map[string]int{"a": 20, "b": 3}, make(chan struct{})
	g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
		if ref.Name == "b" {
			<-hold
		}
		return apierrors.NewGenericServerResponse(429, "POST", schema.GroupResource{Resource: "pods"}, ref.Name, "slow down", seconds[ref.Name],
			true)
	})
	g.pods.put(pod("n", "a"), pod("n", "b"))
	g.start()
	defer g.stop()
	g.step("n")
	g.eventually("a is answered", func() bool { return g.inFlight() == 1 })
	close(hold)
	g.settled(2)
	earliest, sentAt := g.clock.Now().Add(20*time.Second), make(chan time.Time, 2)
	g.evictor.answerWith(func(context.Context, PodRef) error { sentAt <- g.clock.Now(); return nil })
	g.eventually("both are sent again", func() bool { g.clock.Step(time.Second); return len(g.evictor.names()) == 4 })
	if at := <-sentAt; at.Before(earliest) {
		t.Errorf("want no request before %s, got one at %s", earliest, at)
	}
}

func TestStep_AClockSetBackDoesNotStretchTheSettleTime(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Settle = 2 * time.Second })
	g.step("n")
	g.clock.SetTime(g.clock.Now().Add(-time.Hour))
	if got := g.step("n"); got.RequeueAfter != 2*time.Second {
		t.Errorf("want another look after 2s, got %s", got.RequeueAfter)
	}
}

func TestStep_AQueuedPodThatTheRulesNowIgnoreIsNotEvicted(t *testing.T) {
	g := newRig(t, nil)
	g.pods.put(pod("n", "a"))
	g.step("n") // queued, not sent: nothing runs yet
	ignore := func(*corev1.Pod, drain.Verdict) (drain.Verdict, error) {
		return drain.Verdict{Action: drain.Ignore}, nil
	}
	got, err := g.runner.Step(t.Context(), Request{Node: cordoned("n"), Rules: []drain.Rule{ignore}})
	require.NoError(t, err)
	require.True(t, got.Done)
	g.start()
	defer g.stop()
	g.settled(0)
}

func TestStep_APodGoneBeforeItsAnswerKeepsItsTokenTaken(t *testing.T) {
	g := newRig(t, nil)
	g.budgets.set(1, 10)
	hold := make(chan struct{})
	g.evictor.answerWith(func(context.Context, PodRef) error { <-hold; return nil })
	g.pods.put(pod("n", "a"), pod("n", "b"))
	g.start()
	defer g.stop()
	g.step("n")
	g.eventually("a is asked to go", func() bool { return g.inFlight() == 1 })
	g.pods.remove("n", "uid-a")
	for range 2 { // before and after the answer: the budget's status shows nothing yet
		if got := g.step("n"); got.Counts.Blocked != 1 {
			t.Fatalf("want b to wait for the budget, got %+v", got.Counts)
		}
		if g.inFlight() == 1 {
			close(hold)
			g.settled(1)
		}
	}
	g.budgets.set(0, 11)
	g.step("n")
	g.budgets.set(1, 12)
	g.step("n")
	g.settled(2)
}

func TestRelease_OfTheLastNodeKeepsWhatBudgetsHaveSpent(t *testing.T) {
	g := newRig(t, nil)
	g.budgets.set(1, 10)
	g.pods.put(pod("n", "a"), pod("n2", "b"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(1)
	g.runner.Release("n")
	if got := g.step("n2"); got.Counts.Blocked != 1 {
		t.Fatalf("want b to wait: a's eviction does not show yet, got %+v", got.Counts)
	}
	g.runner.Release("n2")
	g.clock.Step(acceptedFor)
	g.step("n2")
	g.settled(2)
}

func TestStep_AnOldRefusalDoesNotCutAContentionsRestShort(t *testing.T) {
	g := newRig(t, nil)
	g.budgets.set(1, 10)
	g.evictor.answerWith(exhausted)
	g.pods.put(pod("n", "a"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(1)
	g.budgets.set(1, 11)
	g.evictor.answerWith(func(context.Context, PodRef) error {
		return apierrors.NewTimeoutError(`couldn't update PodDisruptionBudget "pdb" due to conflicts`, 10)
	})
	g.step("n")
	g.settled(2)
	if got := g.step("n"); got.Counts.Blocked != 1 || got.RequeueAfter < 10*time.Second {
		t.Fatalf("want a to rest for 10s at least, got %+v", got)
	}
}

func TestStep_ARefusedVersionIsNotTrustedAgainAfterAWhile(t *testing.T) {
	g := newRig(t, nil)
	g.runner.SetWorkers(1)
	g.budgets.set(3, 10) // the cache never learns that the server allows none
	g.evictor.answerWith(exhausted)
	g.pods.put(pod("n", "a"), pod("n", "b"), pod("n", "c"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(1)
	for probes := 2; probes <= 5; probes++ {
		g.clock.Step(15 * time.Second)
		for range 3 {
			if got := g.step("n"); got.Counts.Blocked != 3 {
				t.Fatalf("want only a probe to be sent, got %+v", got.Counts)
			}
			g.settled(probes)
		}
	}
}

func TestStep_ProbesDoNotPileUpWhileNothingIsSent(t *testing.T) {
	g := newRig(t, nil) // not started
	g.budgets.set(0, 10)
	g.pods.put(pod("n", "a"), pod("n", "b"), pod("n", "c"))
	for range 5 {
		g.step("n")
		g.clock.Step(15 * time.Second)
	}
	require.Equal(t, []types.UID{"uid-a"}, g.runner.nodes["n"].queue)
}

func TestRelease_AThrottledAnswerCountsForTheOtherNodes(t *testing.T) {
	g := newRig(t, nil)
	hold := make(chan struct{})
	g.evictor.answerWith(func(ctx context.Context, ref PodRef) error { <-hold; return throttled(ctx, ref) })
	g.pods.put(pod("n", "a"), pod("n2", "b"))
	g.start()
	defer g.stop()
	g.step("n")
	g.eventually("a is asked to go", func() bool { return g.inFlight() == 1 })
	g.runner.Release("n")
	close(hold)
	g.settled(1)
	g.step("n2")
	if got := g.step("n2"); len(got.Blockers) != 1 || got.Blockers[0].Reason != drain.ReasonThrottled {
		t.Errorf("want b to wait, got %+v", got)
	}
}

func (g *rig) inFlight() int {
	g.runner.mu.Lock()
	defer g.runner.mu.Unlock()
	return g.runner.inFlight
}
