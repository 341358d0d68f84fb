package runner

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
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

func TestCrash(t *testing.T) {
	for kill := range 11 {
		t.Run(fmt.Sprintf("after %d answers", kill), func(t *testing.T) {
			g := newRig(t)
			g.runner.SetWorkers(3)
			for i := range 10 {
				g.on("n", fmt.Sprintf("p%d", i))
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

			g.crash()
			g.evictor.answerWith(book)
			g.step("n")
			require.Equal(t, 10-kill, g.send())
			seen := map[string]int{}
			for _, name := range g.evictor.names() {
				seen[name]++
				require.LessOrEqual(t, seen[name], 2, "requests for %s", name)
			}
			require.Len(t, seen, 10)
			got := g.step("n")
			require.False(t, got.Done)
			require.Equal(t, 10, got.Counts.Terminating)
		})
	}
}

func TestCancel(t *testing.T) {
	for _, uncordon := range []bool{false, true} {
		t.Run(fmt.Sprintf("uncordon %t", uncordon), func(t *testing.T) {
			g := newRig(t)
			g.budgets.set(1, 10)
			g.on("n", "a", "b")
			g.accept()
			g.step("n")
			require.Equal(t, 1, g.send())
			require.NoError(t, g.runner.Cancel(t.Context(), cordoned("n"), uncordon))
			g.clock.Step(time.Hour)
			require.Zero(t, g.send())

			g.gone("n", "a")
			g.budgets.set(1, 11)
			require.False(t, g.stepWith(Request{Node: schedulable("n", "300")}).Done, "the new cordon is not seen yet")
			require.Contains(t, g.nodes.patches[len(g.nodes.patches)-1], `"value":true`)
			require.Equal(t, 1, g.send())
			g.gone("n", "b")
			require.True(t, g.step("n").Done)
			g.wantRequests("a", "b")
		})
	}
	t.Run("an old answer is not that of the resumed drain", func(t *testing.T) {
		g := newRig(t)
		g.on("n", "a")
		g.step("n")
		old, _ := g.runner.pick()
		require.NoError(t, g.runner.Cancel(t.Context(), cordoned("n"), false))
		g.step("n")
		again, _ := g.runner.pick()
		g.runner.finish(old, answerOf(503, 0), false)
		require.Equal(t, 1, g.step("n").Counts.Evictable, "the second request is still in flight")
		g.runner.finish(again, nil, false)
		require.Equal(t, 1, g.step("n").Counts.Terminating)
	})
}

func TestSettle(t *testing.T) {
	settling := func(t *testing.T) *rig {
		t.Helper()
		return newRig(t, func(c *Config) { c.Settle = 5 * time.Second })
	}
	t.Run("while pods go", func(t *testing.T) {
		g := settling(t)
		g.on("n", "a")
		g.step("n")
		g.clock.Step(5 * time.Second)
		g.gone("n", "a")
		require.True(t, g.step("n").Done, "the time ran while the pod was there")
	})
	t.Run("not from the patch", func(t *testing.T) {
		g := settling(t)
		g.stepWith(Request{Node: schedulable("n", "99")})
		g.clock.Step(time.Minute)
		require.Equal(t, 5*time.Second, g.step("n").RequeueAfter)
	})
	t.Run("cordoned long before by another writer", func(t *testing.T) {
		g := settling(t)
		require.Equal(t, 5*time.Second, g.step("n").RequeueAfter)
		g.clock.Step(5 * time.Second)
		require.True(t, g.step("n").Done)
	})
	t.Run("anew after an uncordon", func(t *testing.T) {
		g := settling(t)
		g.step("n")
		g.clock.Step(5 * time.Second)
		require.False(t, g.stepWith(Request{Node: schedulable("n", "300")}).Done)
		require.Equal(t, 5*time.Second, g.step("n").RequeueAfter)
	})
	t.Run("once more after a crash", func(t *testing.T) {
		g := settling(t)
		g.step("n")
		g.clock.Step(5 * time.Second)
		g.crash()
		require.Equal(t, 5*time.Second, g.step("n").RequeueAfter)
	})
	t.Run("a clock that is set back does not stretch it", func(t *testing.T) {
		g := settling(t)
		g.step("n")
		g.clock.SetTime(g.clock.Now().Add(-time.Hour))
		require.Equal(t, 5*time.Second, g.step("n").RequeueAfter)
	})
}

// frozenSource has of each Node what was there when its watch began, as a process does that was stopped since.
type frozenSource struct {
	*memorySource

	watches map[string][]*corev1.Pod
	begun   int
}

func (s *frozenSource) Pods(node string) ([]*corev1.Pod, bool, error) {
	if _, watched := s.watches[node]; !watched {
		s.watches[node], _, _ = s.memorySource.Pods(node)
		s.begun++
	}
	return s.watches[node], true, nil
}

func (s *frozenSource) Release(node string) { delete(s.watches, node) }

// A scheduler that was late binds a Pod right after the cordon. Then the process is stopped, or its connection carries nothing, until the
// settle time is over.
func TestConfirm(t *testing.T) {
	source := &frozenSource{
		memorySource: &memorySource{pods: map[string]map[types.UID]*corev1.Pod{}}, watches: map[string][]*corev1.Pod{},
	}
	g := newRig(t, func(c *Config) { c.Pods, c.Settle = source, 2*time.Second })
	require.False(t, g.step("n").Done)
	source.put(pod("n", "late"))
	g.clock.Step(23 * time.Second)
	got := g.step("n")
	require.False(t, got.Done, "a Pod is there, and the watch has not shown it")
	require.Equal(t, 1, got.Counts.Evictable)
	require.Equal(t, 2, source.begun)

	source.remove("n", "uid-late")
	source.Release("n") // the watch shows it
	g.clock.Step(2 * time.Second)
	require.True(t, g.step("n").Done)
	require.Equal(t, 4, source.begun)
	require.True(t, g.step("n").Done)
	require.Equal(t, 4, source.begun, "nothing is to be confirmed twice")

	g.stepWith(Request{Node: schedulable("n", "300")})
	require.False(t, g.step("n").Done)
	g.clock.Step(2 * time.Second)
	require.True(t, g.step("n").Done)
	require.Equal(t, 5, source.begun, "the cordon was undone meanwhile")
}

func TestMetrics(t *testing.T) {
	m := NewMetrics()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	g := newRig(t, func(c *Config) { c.Metrics = m })
	g.evictor.answerWith(func(_ context.Context, ref PodRef) error {
		if ref.Name == "a" {
			return internal()
		}
		return nil
	})
	g.on("n", "a", "b", "c")
	g.step("n")
	require.Equal(t, 3, g.send())
	own := func(*corev1.Pod, drain.Verdict) (drain.Verdict, error) {
		return drain.Verdict{Action: drain.Deny, Reason: "OfARule"}, nil
	}
	g.on("m", "d")
	g.stepWith(Request{Node: cordoned("m"), Rules: []drain.Rule{own}})
	families, err := registry.Gather()
	require.NoError(t, err)
	got := map[string]float64{} // without names of objects
	for _, f := range families {
		for _, series := range f.GetMetric() {
			name := f.GetName()
			for _, label := range series.GetLabel() {
				name += "{" + label.GetName() + "=" + label.GetValue() + "}"
			}
			got[name] = series.GetCounter().GetValue()
		}
	}
	require.Equal(t, map[string]float64{
		"machinist_drain_evictions_total{class=EvictionAccepted}": 2, "machinist_drain_evictions_total{class=ServerError}": 1,
	}, got)
}
