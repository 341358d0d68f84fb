package runner_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

// bench is a simulated cluster of Nodes with some pods each, and what Drain needs of it.
type bench struct {
	store  *fake.Store
	client client.WithWatch
}

func newBench(t *testing.T, nodes, podsPerNode int) *bench {
	t.Helper()
	b := &bench{store: fake.NewStore(fake.Options{})}
	b.client = b.store.Client()
	ctx, cancel := context.WithCancel(t.Context())
	loops := fake.AllLoops()
	loops.StartPod, loops.StopPod = 5*time.Millisecond, 5*time.Millisecond
	ended := b.store.Start(ctx, loops)
	t.Cleanup(func() { cancel(); ended() })
	for i := range nodes {
		node := fmt.Sprintf("n%d", i)
		require.NoError(t, b.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
		for j := range podsPerNode {
			p := bound(node, fmt.Sprintf("%s-p%02d", node, j))
			p.Labels = web
			require.NoError(t, b.client.Create(t.Context(), p))
		}
	}
	poll(t, "all pods are ready, because budgets do not look at others", func() bool {
		var list corev1.PodList
		require.NoError(t, b.client.List(t.Context(), &list))
		for i := range list.Items {
			if !available(&list.Items[i]) {
				return false
			}
		}
		return true
	})
	return b
}

// options are those of a Drain with short times.
func (b *bench) options() runner.DrainOptions {
	return runner.DrainOptions{Configure: func(cfg *runner.Config) { cfg.Debounce, cfg.Settle = 5*time.Millisecond, 20*time.Millisecond }}
}

func (b *bench) drain(ctx context.Context, opts runner.DrainOptions, nodes ...string) ([]runner.NodeResult, error) {
	return runner.Drain(ctx, b.store.RESTConfig(), opts, nodes...)
}

func (b *bench) pods(t *testing.T) int {
	t.Helper()
	var list corev1.PodList
	require.NoError(t, b.client.List(t.Context(), &list))
	return len(list.Items)
}

// closedBudget lets no web pod go until the returned function opens it.
func (b *bench) closedBudget(t *testing.T) (open func()) {
	t.Helper()
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(100)), Selector: &metav1.LabelSelector{MatchLabels: web},
		},
	}
	require.NoError(t, b.client.Create(t.Context(), pdb))
	poll(t, "the budget is counted", func() bool {
		require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(pdb), pdb))
		return pdb.Status.ObservedGeneration == pdb.Generation && pdb.Status.ExpectedPods > 0
	})
	return func() {
		patch := client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"minAvailable":0}}`))
		require.NoError(t, b.client.Patch(context.WithoutCancel(t.Context()), pdb, patch))
	}
}

func TestDrain_SeveralNodesWithProgressAndNothingLeftBehind(t *testing.T) {
	b := newBench(t, 3, 8)
	before := goruntime.NumGoroutine()
	opts := b.options()
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
	results, err := b.drain(t.Context(), opts, "n2", "n0", "n1")
	require.NoError(t, err)
	require.Len(t, results, 3)
	for i, name := range []string{"n2", "n0", "n1"} {
		require.Equal(t, name, results[i].Node, "in the order of the names")
		require.True(t, results[i].Done)
		require.True(t, ended[name].Done)
		var node corev1.Node
		require.NoError(t, b.client.Get(t.Context(), client.ObjectKey{Name: name}, &node))
		require.True(t, node.Spec.Unschedulable)
	}
	require.Zero(t, b.pods(t))
	require.Greater(t, reports, 3, "progress, not only ends")
	require.Equal(t, 24, b.store.CountRequests(isEviction), "one request per pod")
	poll(t, "all goroutines have ended", func() bool { return goruntime.NumGoroutine() <= before })
}

func TestDrain_OutOfTimeNamesTheBlockerAndCanBeResumed(t *testing.T) {
	b := newBench(t, 1, 3)
	open := b.closedBudget(t)
	opts := b.options()
	var results []runner.NodeResult
	var err error
	for _, timeout := range []time.Duration{300 * time.Millisecond, 3 * time.Second, 30 * time.Second} { // long enough to ask once
		opts.Timeout = timeout
		results, err = b.drain(t.Context(), opts, "n0")
		require.ErrorIs(t, err, runner.ErrOutOfTime)
		require.ErrorIs(t, results[0].Err, runner.ErrOutOfTime)
		if len(results[0].Blockers) > 0 {
			break
		}
	}
	require.Len(t, results[0].Blockers, 1)
	require.Equal(t, "web", results[0].Blockers[0].Budgets[0].Name)

	open()
	opts = b.options()
	results, err = b.drain(t.Context(), opts, "n0")
	require.NoError(t, err)
	require.True(t, results[0].Done)
	require.Equal(t, 3, b.store.CountRequests(func(r fake.Request) bool { return isEviction(r) && r.Code < 300 }))
}

func TestDrain_AnEndedContextLeavesAResumableState(t *testing.T) {
	b := newBench(t, 1, 3)
	b.closedBudget(t)
	opts := b.options()
	ctx, cancel := context.WithCancel(t.Context())
	opts.Progress = func(r runner.NodeResult) {
		if len(r.Blockers) > 0 {
			cancel()
		}
	}
	results, err := b.drain(ctx, opts, "n0")
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, results[0].Ended)
	require.Len(t, results[0].Blockers, 1)
}

func TestDrain_APolicyDeletesWhatABudgetHolds(t *testing.T) {
	b := newBench(t, 1, 3)
	b.closedBudget(t)
	opts := b.options()
	opts.Policy = &drain.Policy{DeleteAfter: 100 * time.Millisecond, GracePeriod: new(int64(1))}
	results, err := b.drain(t.Context(), opts, "n0")
	require.NoError(t, err)
	require.True(t, results[0].Done)
	require.Zero(t, b.pods(t))
	require.Equal(t, 3, b.store.CountRequests(fake.Match("delete", schema.GroupKind{Kind: "Pod"}, "")))
}

func TestDrain_WhatPatienceDoesNotMendEndsTheNodeOnly(t *testing.T) {
	b := newBench(t, 1, 1)
	opts := b.options()
	results, err := b.drain(t.Context(), opts, "missing", "n0")
	require.True(t, apierrors.IsNotFound(results[0].Err), "got %v", results[0].Err)
	require.ErrorContains(t, err, "missing")
	require.True(t, results[1].Done)

	b = newBench(t, 1, 1)
	b.store.Inject(fake.Fault{
		Match: fake.Match("patch", schema.GroupKind{Kind: "Node"}, ""), Times: -1,
		Err: apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n0", errors.New("no access")),
	})
	opts = b.options()
	_, err = b.drain(t.Context(), opts, "n0")
	require.ErrorContains(t, err, "cordon node n0")
}

func TestDrain_PassingTroubleIsReportedAndTriedAgain(t *testing.T) {
	b := newBench(t, 1, 2)
	b.store.FailNext(fake.Match("patch", schema.GroupKind{Kind: "Node"}, ""), errors.New("connection refused"))
	b.store.FailNext(fake.Match("get", schema.GroupKind{Kind: "Node"}, ""), errors.New("connection refused"))
	opts := b.options()
	troubles := 0
	opts.Progress = func(r runner.NodeResult) {
		if r.Err != nil && !r.Ended {
			troubles++
		}
	}
	results, err := b.drain(t.Context(), opts, "n0")
	require.NoError(t, err)
	require.True(t, results[0].Done)
	require.Equal(t, 2, troubles)
}

func TestDrain_RefusesWhatItCannotDo(t *testing.T) {
	b := newBench(t, 1, 0)
	opts := b.options()
	for what, call := range map[string]func() error{
		"given twice": func() error { _, err := b.drain(t.Context(), opts, "n0", "n0"); return err },
		"Evictor are required": func() error {
			bad := opts
			bad.Configure = func(cfg *runner.Config) { cfg.Evictor = nil }
			_, err := b.drain(t.Context(), bad, "n0")
			return err
		},
		"GracePeriod must be at least 1": func() error {
			bad := opts
			bad.Policy = &drain.Policy{GracePeriod: new(int64(0))}
			_, err := b.drain(t.Context(), bad, "n0")
			return err
		},
		"the rest config is nil": func() error { _, err := runner.Drain(t.Context(), nil, opts, "n0"); return err },
		"the watch broke": func() error {
			bad := opts
			bad.Configure = func(cfg *runner.Config) { cfg.Pods = broken{cfg.Pods} }
			_, err := b.drain(t.Context(), bad, "n0")
			return err
		},
	} {
		require.ErrorContains(t, call(), what)
	}
	results, err := b.drain(t.Context(), opts)
	require.NoError(t, err)
	require.Empty(t, results)
}

// broken is a source that ends at once.
type broken struct{ runner.PodSource }

func (broken) Run(context.Context, func(string)) error { return errors.New("the watch broke") }

func TestDeleters_SpareAPodOfAnotherUIDAndShortenGrace(t *testing.T) {
	b := &bench{store: fake.NewStore(fake.Options{})} // without loops: terminating Pods do not end
	b.client = b.store.Client()
	clientset, err := kubernetes.NewForConfig(b.store.RESTConfig())
	require.NoError(t, err)
	for i, deleter := range []runner.Evictor{runner.NewRESTEvictor(clientset)} {
		pod := bound("n0", fmt.Sprintf("db-%d", i))
		pod.Spec.TerminationGracePeriodSeconds = new(int64(600))
		require.NoError(t, b.client.Create(t.Context(), pod))
		before := drain.RefOf(pod)
		before.UID = "the-one-before"
		err := deleter.Delete(t.Context(), before, nil)
		require.Equal(t, drain.ReasonGone, drain.Classify(err, false).Reason, "answer: %v", err)
		require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		require.Nil(t, pod.DeletionTimestamp)

		for _, grace := range []int64{60, 300} { // the second would be longer
			require.NoError(t, deleter.Delete(t.Context(), drain.RefOf(pod), &grace))
			require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
			require.Equal(t, int64(60), *pod.DeletionGracePeriodSeconds)
		}
	}
}
