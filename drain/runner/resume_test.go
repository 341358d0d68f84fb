package runner

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// accept lets the evictor behave as the API server: accepted pods are terminating in the source.
func (g *rig) accept() {
	g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
		going := pod("n", ref.Name)
		going.DeletionTimestamp = &metav1.Time{Time: g.clock.Now()}
		g.pods.put(going)
		return nil
	})
}

// crash replaces the Runner by a new one over the same surroundings.
func (g *rig) crash() {
	g.t.Helper()
	cfg := g.runner.cfg
	fresh := &memorySource{pods: g.pods.pods}
	cfg.Pods, g.pods = fresh, fresh
	r, err := New(cfg)
	require.NoError(g.t, err)
	g.runner = r
}

func TestResume_ACrashCostsAtMostOneMoreRequestPerPod(t *testing.T) {
	for kill := range 11 {
		t.Run(fmt.Sprintf("after %d answers", kill), func(t *testing.T) {
			g := newRig(t, func(c *Config) { c.Budgets = nil })
			g.runner.SetWorkers(3)
			for i := range 10 {
				g.pods.put(pod("n", fmt.Sprintf("p%d", i)))
			}
			g.accept()
			book := g.evictor.answer
			answered := 0
			g.evictor.answerWith(func(ctx context.Context, ref PodRef) error {
				g.evictor.mu.Lock()
				answered++
				late := answered > kill
				g.evictor.mu.Unlock()
				if late { // in flight when the process ends: its result is unknown
					<-ctx.Done()
					return ctx.Err()
				}
				return book(ctx, ref)
			})
			g.start()
			g.step("n")
			g.eventually("the moment of the crash", func() bool { return len(g.evictor.names()) >= min(kill+1, 10) })
			g.stop()
			before := len(g.evictor.names())

			g.crash()
			g.evictor.answerWith(book)
			g.start()
			defer g.stop()
			g.step("n")
			g.settled(before + 10 - kill)
			seen := map[string]int{}
			for _, name := range g.evictor.names() {
				seen[name]++
				require.LessOrEqual(t, seen[name], 2, "requests for %s", name)
			}
			require.Len(t, seen, 10)
			if got := g.step("n"); got.Done || got.Counts.Terminating != 10 {
				t.Fatalf("want all pods terminating, got %+v", got)
			}
		})
	}
}

func TestResume_ACancelledDrainGoesOnWhereItWas(t *testing.T) {
	for _, uncordon := range []bool{false, true} {
		t.Run(fmt.Sprintf("uncordon %t", uncordon), func(t *testing.T) {
			g := newRig(t, nil)
			g.runner.SetWorkers(1)
			g.budgets.set(1, 10)
			g.pods.put(pod("n", "a"), pod("n", "b"))
			g.accept()
			g.start()
			defer g.stop()
			g.step("n")
			g.settled(1)
			require.NoError(t, g.runner.Cancel(t.Context(), cordoned("n"), uncordon))
			g.clock.Step(time.Hour)
			g.settled(1)

			g.pods.remove("n", "uid-a")
			g.budgets.set(1, 11)
			if got := g.stepWith(Request{Node: schedulable("n", "300")}); got.Done {
				t.Fatal("want not done before the new cordon is seen")
			}
			require.Contains(t, g.nodes.patches[len(g.nodes.patches)-1], `"value":true`)
			g.settled(2)
			g.pods.remove("n", "uid-b")
			if got := g.step("n"); !got.Done {
				t.Fatalf("want done, got %+v", got)
			}
			g.wantRequests("a", "b")
		})
	}
}

func TestCancel_WithRequestsUnderWayIsSafe(t *testing.T) {
	for name, answer := range map[string]error{"accepted": nil, "refused": answerOf(503, 0), "throttled": answerOf(429, 1)} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			g.budgets.set(1, 10)
			release := make(chan struct{})
			g.evictor.answerWith(func(context.Context, PodRef) error { <-release; return answer })
			g.pods.put(pod("n", "a"), pod("other", "b"))
			g.start()
			defer g.stop()
			g.step("n")
			g.eventually("the request is under way", func() bool { return len(g.evictor.names()) == 1 })
			require.NoError(t, g.runner.Cancel(t.Context(), cordoned("n"), true))
			g.step("other")
			budget := g.runner.budgets[types.NamespacedName{Namespace: "default", Name: "pdb"}]
			require.Len(t, budget.tokens, 1, "the token of the request under way stays taken")
			close(release)
			g.eventually("the request has ended", func() bool {
				g.runner.mu.Lock()
				defer g.runner.mu.Unlock()
				return g.runner.inFlight == 0 && budget.inFlight == 0
			})
			require.NotContains(t, g.runner.nodes, "n")
			g.runner.mu.Lock()
			_, counted := budget.tokens["uid-a"]
			g.runner.mu.Unlock()
			require.Equal(t, answer == nil, counted, "an accepted eviction counts until the status shows it")
			g.budgets.set(1, 11)
			g.evictor.answerWith(nil)
			g.clock.Step(2 * time.Second)
			g.step("other")
			g.settled(2)
			g.wantRequests("a", "b")
		})
	}
}

func TestCancel_AnOldAnswerIsNotBookedOnTheResumedDrain(t *testing.T) {
	g := newRig(t, nil)
	old, again := make(chan struct{}), make(chan struct{})
	answers := make(chan chan struct{}, 2)
	answers <- old
	answers <- again
	g.evictor.answerWith(func(context.Context, PodRef) error { <-<-answers; return answerOf(503, 0) })
	g.pods.put(pod("n", "a"))
	g.start()
	defer g.stop()
	g.step("n")
	g.eventually("the first request is under way", func() bool { return len(g.evictor.names()) == 1 })
	require.NoError(t, g.runner.Cancel(t.Context(), cordoned("n"), false))
	g.step("n")
	g.eventually("the second request is under way", func() bool { return len(g.evictor.names()) == 2 })
	close(old)
	g.eventually("the first has ended", func() bool {
		g.runner.mu.Lock()
		defer g.runner.mu.Unlock()
		return g.runner.inFlight == 1
	})
	if got := g.step("n"); got.Counts.Evictable != 1 {
		t.Fatalf("want the second request still under way, got %+v", got)
	}
	close(again)
	g.settled(2)
}

func TestSettle_CountsFromTheFirstLookThatShowsTheCordon(t *testing.T) {
	settle := func(c *Config) { c.Settle = 5 * time.Second }
	t.Run("while pods go", func(t *testing.T) {
		g := newRig(t, settle)
		g.pods.put(pod("n", "a"))
		g.step("n")
		g.clock.Step(5 * time.Second)
		g.pods.remove("n", "uid-a")
		require.True(t, g.step("n").Done, "the time ran while the pod was there")
	})
	t.Run("not from the patch", func(t *testing.T) {
		g := newRig(t, settle)
		g.stepWith(Request{Node: schedulable("n", "99")})
		g.clock.Step(time.Minute)
		got := g.step("n")
		require.False(t, got.Done)
		require.Equal(t, 5*time.Second, got.RequeueAfter)
	})
	t.Run("cordoned long before by another writer", func(t *testing.T) {
		g := newRig(t, settle)
		require.Equal(t, 5*time.Second, g.step("n").RequeueAfter)
		g.clock.Step(5 * time.Second)
		require.True(t, g.step("n").Done)
	})
	t.Run("anew after an uncordon", func(t *testing.T) {
		g := newRig(t, settle)
		g.step("n")
		g.clock.Step(5 * time.Second)
		require.False(t, g.stepWith(Request{Node: schedulable("n", "300")}).Done)
		require.Equal(t, 5*time.Second, g.step("n").RequeueAfter)
	})
	t.Run("once more after a crash", func(t *testing.T) {
		g := newRig(t, settle)
		g.step("n")
		g.clock.Step(5 * time.Second)
		g.crash()
		require.Equal(t, 5*time.Second, g.step("n").RequeueAfter)
	})
}

func TestDispatch_NoMoreThanTheNodesShareAtOnce(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Budgets = nil })
	g.runner.SetWorkers(8)
	g.runner.perNode = 3
	hold := make(chan struct{})
	g.evictor.answerWith(func(context.Context, PodRef) error { <-hold; return nil })
	for i := range 10 {
		g.pods.put(pod("n1", fmt.Sprintf("a%d", i)), pod("n2", fmt.Sprintf("b%d", i)))
	}
	g.start()
	defer g.stop()
	g.step("n1")
	g.step("n2")
	g.eventually("both shares are used", func() bool { return len(g.evictor.names()) == 6 })
	g.runner.kickDispatcher()
	g.runner.mu.Lock()
	require.Equal(t, 3, g.runner.nodes["n1"].inFlight)
	require.Equal(t, 3, g.runner.nodes["n2"].inFlight)
	g.runner.mu.Unlock()
	close(hold)
	g.settled(20)
}

func TestStep_NoGoroutinePerPod(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Budgets = nil })
	g.runner.SetWorkers(2)
	hold := make(chan struct{})
	g.evictor.answerWith(func(context.Context, PodRef) error { <-hold; return nil })
	g.start()
	defer g.stop()
	before := runtime.NumGoroutine()
	var pods []*corev1.Pod
	for i := range 500 {
		pods = append(pods, pod("n", fmt.Sprintf("p%03d", i)))
	}
	g.pods.put(pods...)
	for range 5 {
		g.step("n")
	}
	g.eventually("two requests are under way", func() bool { return len(g.evictor.names()) == 2 })
	g.step("n")
	if got := runtime.NumGoroutine() - before; got > 2 {
		t.Errorf("want a goroutine per request under way, got %d more", got)
	}
	close(hold)
	g.settled(500)
	names := g.evictor.names()
	slices.Sort(names)
	require.Len(t, slices.Compact(names), 500)
}
