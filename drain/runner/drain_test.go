package runner_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

// withPods is a simulated cluster of Nodes n0, n1 and so on, with so many ready web pods on each.
func withPods(t *testing.T, nodes, podsPerNode int) *world {
	t.Helper()
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	w := newWorld(t, names...)
	for _, node := range names {
		for j := range podsPerNode {
			p := bound(node, fmt.Sprintf("%s-p%02d", node, j))
			p.Labels = web
			w.create(p)
		}
	}
	poll(t, "all pods are ready, because budgets do not look at others", func() bool {
		for _, pod := range w.webPods() {
			if !available(&pod) {
				return false
			}
		}
		return true
	})
	return w
}

// quick are the options of a Drain with short times.
func quick() runner.DrainOptions {
	return runner.DrainOptions{Configure: func(cfg *runner.Config) { cfg.Debounce, cfg.Settle = 5*time.Millisecond, 20*time.Millisecond }}
}

func (w *world) drainNodes(ctx context.Context, opts runner.DrainOptions, nodes ...string) ([]runner.NodeResult, error) {
	return runner.Drain(ctx, w.store.RESTConfig(), opts, nodes...)
}

// closedBudget lets no web pod go until the returned function opens it.
func (w *world) closedBudget() (open func()) {
	pdb := w.budget(policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(100))}, int32(len(w.webPods())))
	return func() { w.patch(pdb, `{"spec":{"minAvailable":0}}`) }
}

func TestDrain(t *testing.T) {
	w := withPods(t, 3, 8)
	before := goruntime.NumGoroutine()
	opts := quick()
	var mu sync.Mutex
	ended, reports := map[string]runner.NodeResult{}, 0
	opts.Progress = func(r runner.NodeResult) {
		if !mu.TryLock() {
			t.Error("want no two calls at once")
			return
		}
		defer mu.Unlock()
		reports++
		require.NotContains(t, ended, r.Node, "nothing comes after the end")
		if r.Ended {
			ended[r.Node] = r
		}
	}
	results, err := w.drainNodes(t.Context(), opts, "n2", "n0", "n1")
	require.NoError(t, err)
	require.Len(t, results, 3)
	for i, name := range []string{"n2", "n0", "n1"} {
		require.Equal(t, name, results[i].Node, "in the order of the names")
		require.True(t, results[i].Done)
		require.True(t, ended[name].Done)
		require.True(t, w.node(name).Spec.Unschedulable)
	}
	require.Empty(t, w.webPods())
	require.Greater(t, reports, 3, "progress, not only ends")
	require.Equal(t, 24, w.store.CountRequests(isEviction), "one request per pod")
	poll(t, "all goroutines have ended", func() bool { return goruntime.NumGoroutine() <= before })
}

func TestDrainBehindABudget(t *testing.T) {
	t.Run("runs out of time, names the blocker and can be resumed", func(t *testing.T) {
		w := withPods(t, 1, 3)
		open := w.closedBudget()
		opts := quick()
		var results []runner.NodeResult
		var err error
		for _, opts.Timeout = range []time.Duration{300 * time.Millisecond, 3 * time.Second, 30 * time.Second} { // long enough to ask once
			results, err = w.drainNodes(t.Context(), opts, "n0")
			require.ErrorIs(t, err, runner.ErrOutOfTime)
			require.ErrorIs(t, results[0].Err, runner.ErrOutOfTime)
			if len(results[0].Blockers) > 0 {
				break
			}
		}
		require.Len(t, results[0].Blockers, 1)
		require.Equal(t, "web", results[0].Blockers[0].Budgets[0].Name)

		open()
		results, err = w.drainNodes(t.Context(), quick(), "n0")
		require.NoError(t, err)
		require.True(t, results[0].Done)
		require.Equal(t, 3, w.store.CountRequests(isAccepted))
	})
	t.Run("ends with its context", func(t *testing.T) {
		w := withPods(t, 1, 3)
		w.closedBudget()
		opts := quick()
		ctx, cancel := context.WithCancel(t.Context())
		opts.Progress = func(r runner.NodeResult) {
			if len(r.Blockers) > 0 {
				cancel()
			}
		}
		results, err := w.drainNodes(ctx, opts, "n0")
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, results[0].Ended)
		require.Len(t, results[0].Blockers, 1)
	})
	t.Run("deletes by its policy", func(t *testing.T) {
		w := withPods(t, 1, 3)
		w.closedBudget()
		opts := quick()
		opts.Policy = &drain.Policy{DeleteAfter: 100 * time.Millisecond, GracePeriod: new(int64(1))}
		results, err := w.drainNodes(t.Context(), opts, "n0")
		require.NoError(t, err)
		require.True(t, results[0].Done)
		require.Empty(t, w.webPods())
		require.Equal(t, 3, w.store.CountRequests(fake.Match("delete", schema.GroupKind{Kind: "Pod"}, "")))
	})
}

func TestDrainErrors(t *testing.T) {
	nodes := schema.GroupKind{Kind: "Node"}
	t.Run("what patience does not mend ends the Node only", func(t *testing.T) {
		w := withPods(t, 1, 1)
		results, err := w.drainNodes(t.Context(), quick(), "missing", "n0")
		require.True(t, apierrors.IsNotFound(results[0].Err), "got %v", results[0].Err)
		require.ErrorContains(t, err, "missing")
		require.True(t, results[1].Done)
	})
	t.Run("a cordon that is not allowed", func(t *testing.T) {
		w := withPods(t, 1, 1)
		w.store.Inject(fake.Fault{
			Match: fake.Match("patch", nodes, ""), Times: -1,
			Err: apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n0", errors.New("no access")),
		})
		_, err := w.drainNodes(t.Context(), quick(), "n0")
		require.ErrorContains(t, err, "cordon node n0")
	})
	t.Run("passing trouble is reported, and tried again", func(t *testing.T) {
		w := withPods(t, 1, 2)
		w.store.FailNext(fake.Match("patch", nodes, ""), errors.New("connection refused"))
		w.store.FailNext(fake.Match("get", nodes, ""), errors.New("connection refused"))
		opts := quick()
		troubles := 0
		opts.Progress = func(r runner.NodeResult) {
			if r.Err != nil && !r.Ended {
				troubles++
			}
		}
		results, err := w.drainNodes(t.Context(), opts, "n0")
		require.NoError(t, err)
		require.True(t, results[0].Done)
		require.Equal(t, 2, troubles)
	})
}

func TestDrainOptions(t *testing.T) {
	w := withPods(t, 1, 0)
	results, err := w.drainNodes(t.Context(), quick())
	require.NoError(t, err)
	require.Empty(t, results)
	_, err = w.drainNodes(t.Context(), quick(), "n0", "n0")
	require.ErrorContains(t, err, "given twice")
	_, err = runner.Drain(t.Context(), nil, quick(), "n0")
	require.ErrorContains(t, err, "the rest config is nil")
	for what, opts := range map[string]runner.DrainOptions{
		"Evictor are required":           {Configure: func(cfg *runner.Config) { cfg.Evictor = nil }},
		"GracePeriod must be at least 1": {Policy: &drain.Policy{GracePeriod: new(int64(0))}},
		"the watch broke":                {Configure: func(cfg *runner.Config) { cfg.Pods = broken{cfg.Pods} }},
	} {
		_, err = w.drainNodes(t.Context(), opts, "n0")
		require.ErrorContains(t, err, what)
	}
}

// broken is a source that ends at once.
type broken struct{ runner.PodSource }

func (broken) Run(context.Context, func(string)) error { return errors.New("the watch broke") }

// hangingNodes do not answer the first hangs reads before the caller gives up.
type hangingNodes struct {
	client.Reader
	hangs atomic.Int32
}

func (n *hangingNodes) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if n.hangs.Add(-1) < 0 {
		return n.Reader.Get(ctx, key, obj, opts...)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Second):
		return errors.New("no limit ended the read of the Node")
	}
}

// drainHanging drains n0 over Nodes whose first reads hang.
func (w *world) drainHanging(hangs int32, call time.Duration, opts runner.DrainOptions) ([]runner.NodeResult, error) {
	w.t.Helper()
	nodes := &hangingNodes{Reader: w.client}
	nodes.hangs.Store(hangs)
	cfg := runner.Config{Nodes: w.client, Pods: runner.NewPodSource(w.client), Evictor: w.evictor(), CallTimeout: call}
	quick().Configure(&cfg)
	return runner.DrainBy(w.t.Context(), cfg, nodes, opts, "n0")
}

func TestDrainLimits(t *testing.T) {
	t.Run("the timeout ends the read of a Node", func(t *testing.T) {
		_, err := withPods(t, 1, 0).drainHanging(1000, time.Hour, runner.DrainOptions{Timeout: 50 * time.Millisecond})
		require.ErrorIs(t, err, runner.ErrOutOfTime)
		require.ErrorContains(t, err, "drain node n0: ", "an error names its Node, read or not")
	})
	t.Run("a read takes no longer than a call may take, and is tried again", func(t *testing.T) {
		var trouble []error
		opts := runner.DrainOptions{Progress: func(r runner.NodeResult) {
			if r.Err != nil {
				trouble = append(trouble, r.Err)
			}
		}}
		results, err := withPods(t, 1, 1).drainHanging(1, 500*time.Millisecond, opts)
		require.NoError(t, err)
		require.True(t, results[0].Done)
		require.NotEmpty(t, trouble)
		require.ErrorContains(t, trouble[0], "drain node n0: read node: ")
	})
	t.Run("the timeout ends requests that are never answered", func(t *testing.T) {
		silence := make(chan struct{})
		time.AfterFunc(30*time.Second, sync.OnceFunc(func() { close(silence) }))
		var asked, ended atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			select {
			case <-silence:
			case <-r.Context().Done():
				ended.Add(1)
			}
		}))
		defer server.Close()
		for _, timeout := range []time.Duration{200 * time.Millisecond, 2 * time.Second, 20 * time.Second} { // long enough to ask once
			_, err := runner.Drain(t.Context(), &rest.Config{Host: server.URL}, runner.DrainOptions{Timeout: timeout}, "n0")
			require.ErrorIs(t, err, runner.ErrOutOfTime)
			if asked.Load() > 0 {
				break
			}
		}
		require.Positive(t, asked.Load())
		poll(t, "every request was ended by the drain", func() bool { return ended.Load() == asked.Load() })
	})
}
