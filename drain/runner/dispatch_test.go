package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/drain"
)

func TestStart(t *testing.T) {
	before := runtime.NumGoroutine()
	g := newRig(t)
	require.True(t, g.runner.NeedLeaderElection())
	g.on("n", "a")
	g.start()
	require.Error(t, g.runner.Start(t.Context()))
	g.step("n")
	g.settled(1)
	g.stop()
	g.eventually("all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
	_, err := g.runner.Step(t.Context(), Request{Node: cordoned("n")})
	require.ErrorIs(t, err, ErrStopped)
}

func TestHangingRequests(t *testing.T) {
	g := newRig(t)
	g.runner.SetWorkers(2)
	g.evictor.answerWith(func(ctx context.Context, _ PodRef) error { <-ctx.Done(); return ctx.Err() })
	for i := range 500 {
		g.on("n", fmt.Sprintf("p%03d", i))
	}
	g.start()
	before := runtime.NumGoroutine()
	for range 5 {
		got := g.step("n") // returns at once
		require.False(t, got.Done)
		require.Equal(t, 500, got.Counts.Evictable)
	}
	g.eventually("two requests hang", func() bool { return len(g.evictor.names()) == 2 })
	g.step("n")
	require.LessOrEqual(t, runtime.NumGoroutine()-before, 2, "a goroutine per request in flight")
	g.stop() // ends although both hang in the API server
	require.Len(t, g.evictor.names(), 2, "no request after the end")
}

func TestNodesShare(t *testing.T) {
	g := newRig(t)
	g.runner.SetWorkers(6)
	for i := range 10 {
		g.on("n1", fmt.Sprintf("a%d", i))
		g.on("n2", fmt.Sprintf("b%d", i))
	}
	g.step("n1")
	g.step("n2")
	requests := g.picked()
	require.Len(t, requests, 6)
	of := map[string]int{}
	for _, a := range requests {
		of[a.ns.name]++
		g.runner.finish(a, nil, false)
	}
	require.Equal(t, map[string]int{"n1": 3, "n2": 3}, of)
	require.Equal(t, 14, g.send())
}

func TestSendNext(t *testing.T) {
	t.Run("sends one request, and Nodes take turns", func(t *testing.T) {
		g := newRig(t)
		g.on("n1", "a", "b")
		g.on("n2", "c")
		sent, again := g.runner.SendNext(t.Context())
		require.False(t, sent, "nothing is queued before a Step")
		require.Zero(t, again)
		g.step("n1")
		g.step("n2")
		for i := range 3 {
			sent, _ := g.runner.SendNext(t.Context())
			require.True(t, sent)
			require.Len(t, g.evictor.names(), i+1)
		}
		sent, again = g.runner.SendNext(t.Context())
		require.False(t, sent)
		require.Zero(t, again)
		require.Equal(t, 1, slices.Index(g.evictor.names(), "c"))
	})
	t.Run("returns when the next request may be sent", func(t *testing.T) {
		g := newRig(t)
		g.on("n", "a")
		g.answer(throttled())
		g.step("n")
		require.Equal(t, 1, g.send())
		for _, left := range []time.Duration{7 * time.Second, time.Millisecond} {
			g.clock.SetTime(g.runner.paused.until.Add(-left))
			sent, again := g.runner.SendNext(t.Context())
			require.False(t, sent)
			require.Equal(t, left, again)
		}
	})
	t.Run("sends nothing after the end of its context", func(t *testing.T) {
		g := newRig(t)
		g.on("n", "a")
		g.step("n")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		g.runner.SendNext(ctx)
		g.wantRequests()
		require.Zero(t, g.send(), "the request waits for the next Step, as after the end of Start")
		g.step("n")
		require.Equal(t, 1, g.send())
	})
	t.Run("Steps and releases go on during a request", func(t *testing.T) {
		g := newRig(t)
		g.on("n1", "a")
		g.on("n2", "b")
		g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
			if ref.Name == "a" {
				g.step("n2") // from within the request: a caller in one goroutine lets others act meanwhile
				g.runner.Release("n1")
			}
			return errors.New("lost")
		})
		g.step("n1")
		require.Equal(t, 2, g.send())
		g.wantRequests("a", "b")
	})
}

// A rule that takes its time holds no other Node up.
func TestSlowPlan(t *testing.T) {
	g := newRig(t)
	g.on("slow", "a")
	g.on("quick", "b")
	judging, goOn := make(chan struct{}), make(chan struct{})
	slow := func(*corev1.Pod, drain.Verdict) (drain.Verdict, error) {
		close(judging)
		<-goOn
		return drain.Verdict{Action: drain.Evict, Reason: drain.ReasonEvictable}, nil
	}
	steps := make(chan error, 2)
	step := func(req Request) {
		_, err := g.runner.Step(t.Context(), req)
		steps <- err
	}
	go step(Request{Node: cordoned("slow"), Rules: []drain.Rule{slow}})
	<-judging
	go step(Request{Node: cordoned("quick")})
	select {
	case err := <-steps:
		require.NoError(t, err)
	case <-time.After(waitLimit):
		t.Error("the step of a Node waits for the plan of another one")
	}
	close(goOn)
	require.NoError(t, <-steps)
}

// wakings are what a source enqueues.
func (g *rig) wakings(ctx context.Context) (woken func(what, owner string), none func()) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	g.t.Cleanup(queue.ShutDown)
	require.NoError(g.t, g.runner.Source().Start(ctx, queue))
	woken = func(what, owner string) {
		g.t.Helper()
		g.eventually(what, func() bool { return queue.Len() == 1 })
		request, _ := queue.Get()
		queue.Done(request)
		require.Equal(g.t, owner, request.Name, what)
	}
	return woken, func() { g.t.Helper(); require.Zero(g.t, queue.Len()) }
}

func soon(c *Config) { c.Debounce = time.Millisecond }

func TestSource(t *testing.T) {
	g := newRig(t, soon)
	budgets := g.runner.Follow().Budgets()
	require.NoError(t, budgets.Replace(nil, ""))
	ctx, cancel := context.WithCancel(t.Context())
	woken, none := g.wakings(ctx)
	set := func(allowed int32, version int) *policyv1.PodDisruptionBudget {
		g.budgets.set(allowed, version)
		pdb := g.budgets.list[0].DeepCopy()
		require.NoError(t, budgets.Update(pdb))
		return pdb
	}
	set(1, 10)
	g.on("n", "a", "b")
	g.start()
	g.step("n")
	g.settled(1)
	woken("the end of a request wakes the owner", "machine-of-n")
	g.gone("n", "a")
	woken("a pod's end wakes the owner", "machine-of-n")
	other := set(0, 11).DeepCopy()
	g.step("n")
	set(0, 12)
	woken("a change of a budget that holds a pod wakes the owner", "machine-of-n")

	other.Name = "other"
	require.NoError(t, budgets.Update(other))
	g.runner.wakeNode("unknown")
	cancel()
	g.eventually("the source is forgotten with its context", func() bool {
		g.runner.mu.Lock()
		defer g.runner.mu.Unlock()
		return len(g.runner.sinks) == 0
	})
	g.runner.wakeNode("n")
	none()
}

func TestRelease(t *testing.T) {
	g := newRig(t)
	g.budgets.set(1, 10)
	g.on("n1", "a")
	g.on("n2", "b")
	g.step("n1")
	g.step("n2")
	g.runner.Release("unknown")
	g.runner.Release("n1") // its queued pod gives the token back
	g.step("n2")
	require.NotContains(t, g.runner.nodes, "n1")
	require.Equal(t, []types.UID{"uid-b"}, g.runner.nodes["n2"].queue)
	require.NoError(t, g.runner.Cancel(t.Context(), cordoned("n2"), false))
	require.Empty(t, g.runner.nodes)
	require.Empty(t, g.runner.ring)
	require.Empty(t, g.nodes.patches)
	require.NoError(t, g.runner.Cancel(t.Context(), cordoned("n2"), true))
	require.Len(t, g.nodes.patches, 1)
	require.Contains(t, g.nodes.patches[0], `"value":false`)
	require.Zero(t, g.send())
}

// watchingSource remembers which Nodes it was made to look at, and lets a test act within a look.
type watchingSource struct {
	*memorySource
	watches sync.Map
	within  atomic.Pointer[func()]
}

func (s *watchingSource) Pods(node string) ([]*corev1.Pod, bool, error) {
	if act := s.within.Swap(nil); act != nil {
		(*act)()
	}
	s.watches.Store(node, true)
	return s.memorySource.Pods(node)
}

func (s *watchingSource) Release(node string) { s.watches.Delete(node) }

func TestReleaseDuringALook(t *testing.T) {
	for name, look := range map[string]func(g *rig, arm func()){
		"a step":             func(g *rig, arm func()) { arm(); g.step("n") },
		"a wait for volumes": func(g *rig, arm func()) { arm(); g.stepVolumes(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var source *watchingSource
			g, volumes := newVolumeRig(t, func(c *Config) {
				source = &watchingSource{memorySource: c.Pods.(*memorySource)}
				c.Pods = source
			})
			volumes.attach(attachment("n", "a"))
			g.on("n", "a")
			released := make(chan struct{})
			release := func() {
				go func() { defer close(released); g.runner.Release("n") }()
				select { // the release may wait for the look, or happen within it
				case <-released:
				case <-time.After(20 * time.Millisecond):
				}
			}
			look(g, func() { source.within.Store(&release) })
			<-released
			_, watched := source.watches.Load("n")
			require.False(t, watched, "no watch of a Node that was released")
		})
	}
}
