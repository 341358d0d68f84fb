package runner

import (
	"context"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/drain"
)

func TestDispatch_IsFairOverNodes(t *testing.T) {
	g := newRig(t, nil)
	g.runner.SetWorkers(1)
	for i := range 50 {
		g.pods.put(pod("big", fmt.Sprintf("big-%02d", i)))
	}
	g.pods.put(pod("small", "small"))
	g.step("big")
	g.step("small")
	g.start()
	defer g.stop()
	g.settled(51)
	if at := slices.Index(g.evictor.names(), "small"); at > 1 {
		t.Errorf("want the small Node's pod among the first two, was number %d", at+1)
	}
}

func TestDispatch_ThrottlingSlowsEverybodyAndBlamesNoPod(t *testing.T) {
	g := newRig(t, nil)
	g.runner.SetWorkers(1)
	g.evictor.answerWith(throttled)
	g.pods.put(pod("n", "a"), pod("n", "b"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(1)
	got := g.step("n")
	if len(got.Blockers) != 1 || got.Blockers[0].Reason != drain.ReasonThrottled || got.Blockers[0].Count != 2 {
		t.Fatalf("want both pods throttled, got %+v", got.Blockers)
	}
	g.settled(1)
	g.evictor.answerWith(nil)
	g.clock.Step(6 * time.Second)
	g.settled(1)
	g.eventually("the pause ends by itself", func() bool { g.clock.Step(time.Second); return len(g.evictor.names()) == 3 })
	g.settled(3)
	g.wantRequests("a", "a", "b")
}

func TestDispatch_RefusedCredentialsAreAnError(t *testing.T) {
	g := newRig(t, nil)
	g.runner.SetWorkers(1)
	g.evictor.answerWith(func(context.Context, PodRef) error { return apierrors.NewUnauthorized("token expired") })
	g.pods.put(pod("n", "a"))
	g.start()
	defer g.stop()
	_, _ = g.runner.Step(t.Context(), Request{Node: cordoned("n")}) // the answer may be there before it returns
	g.settled(1)
	_, err := g.runner.Step(t.Context(), Request{Node: cordoned("n")})
	require.ErrorContains(t, err, "token expired")
	g.evictor.answerWith(nil)
	g.clock.Step(15 * time.Second)
	g.runner.kickDispatcher()
	g.settled(2)
	g.step("n")
}

func TestStart_OnceAndWithoutLeftovers(t *testing.T) {
	before := runtime.NumGoroutine()
	g := newRig(t, nil)
	require.True(t, g.runner.NeedLeaderElection())
	g.pods.put(pod("n", "a"))
	g.start()
	require.Error(t, g.runner.Start(t.Context()))
	g.step("n")
	g.settled(1)
	g.stop()
	g.eventually("all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

func TestSource_WakesTheOwnerOfANode(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Debounce = time.Millisecond })
	budgets := g.runner.Follow().Budgets()
	require.NoError(t, budgets.Replace(nil, ""))
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, g.runner.Source().Start(ctx, queue))
	woken := func(what string) {
		t.Helper()
		g.eventually(what, func() bool { return queue.Len() == 1 })
		request, _ := queue.Get()
		queue.Done(request)
		require.Equal(t, "machine-of-n", request.Name)
	}

	set := func(allowed int32, version int) *policyv1.PodDisruptionBudget {
		g.budgets.set(allowed, version)
		pdb := g.budgets.list[0].DeepCopy()
		require.NoError(t, budgets.Update(pdb))
		return pdb
	}
	set(1, 10)
	g.pods.put(pod("n", "a"), pod("n", "b"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(1)
	woken("the end of a request wakes the owner")
	g.pods.remove("n", "uid-a")
	woken("a pod's end wakes the owner")
	other := set(0, 11).DeepCopy()
	g.step("n")
	set(0, 12)
	woken("a change of a budget that holds a pod wakes the owner")

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
	require.Zero(t, queue.Len())
}

func TestRelease_EndsEverythingAboutANode(t *testing.T) {
	g := newRig(t, nil)
	g.budgets.set(1, 10)
	g.pods.put(pod("n1", "a"), pod("n2", "b"))
	g.step("n1")
	g.step("n2")
	g.runner.Release("n1") // its queued pod gives the token back
	g.step("n2")
	g.runner.mu.Lock()
	left := g.runner.nodes["n1"] != nil
	queue := slices.Clone(g.runner.nodes["n2"].queue)
	g.runner.mu.Unlock()
	require.False(t, left)
	require.Equal(t, []types.UID{"uid-b"}, queue)
	g.runner.Release("n2")
	require.Empty(t, g.runner.ring)
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

func TestRelease_LeavesNoWatchBehindWhateverLooksAtTheNodeBesideIt(t *testing.T) {
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
			g.pods.put(pod("n", "a"))
			g.start()
			defer g.stop()
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
			g.eventually("the look is over", func() bool { return g.runner.idle() })
			if _, watched := source.watches.Load("n"); watched {
				t.Error("want no watch of a Node that was released")
			}
		})
	}
}

func (r *Runner) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inFlight == 0
}
