package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/patch"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/nodeindex"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

func TestWhatIsSaidOfAMachineWhoseNodeCannotBeRead(t *testing.T) {
	now := time.Unix(1000, 0)
	unknown := func(reason string) unreadDecision {
		return unreadDecision{Conditions: []metav1.Condition{
			condition(ConditionNodeReady, metav1.ConditionUnknown, reason, "why"),
			condition(ConditionNodeHealthy, metav1.ConditionUnknown, reason, "why"),
		}}
	}
	ready := unreadFacts{Down: true, HasNode: true, Found: true, Said: ReasonNodeReady, Since: now.Add(-time.Minute), Grace: 5 * time.Minute}
	with := func(change func(*unreadFacts)) unreadFacts {
		f := ready
		change(&f)
		return f
	}
	for name, tc := range map[string]struct {
		facts unreadFacts
		want  unreadDecision
	}{
		"its Node was read a moment ago":    {ready, unreadDecision{Again: 4 * time.Minute}},
		"its Node was read long ago":        {with(func(f *unreadFacts) { f.Since = now.Add(-5 * time.Minute) }), unknown(ReasonConnectionDown)},
		"nobody knows since when":           {with(func(f *unreadFacts) { f.Since = time.Time{} }), unknown(ReasonConnectionDown)},
		"it waits for its Node":             {with(func(f *unreadFacts) { f.HasNode, f.Said = false, ReasonInspectionFailed }), unknown(ReasonConnectionDown)},
		"it said so before":                 {with(func(f *unreadFacts) { f.Said = ReasonConnectionDown }), unknown(ReasonConnectionDown)},
		"the process has just begun":        {with(func(f *unreadFacts) { f.Early, f.Said = true, ReasonConnectionDown }), unreadDecision{}},
		"and the Machine too":               {unreadFacts{Down: true, Early: true}, unknown(ReasonConnectionDown)},
		"the first list is not there":       {unreadFacts{}, unknown(ReasonInspectionFailed)},
		"not even the reason is understood": {unreadFacts{Failed: true}, unknown(ReasonInternalError)},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Message, tc.facts.Now = "why", now
			if diff := cmp.Diff(tc.want, decideUnread(tc.facts)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// failing is a Drainer that cannot reach its cluster.
type failing struct{ err error }

func (f failing) Step(context.Context, runner.Request) (runner.Result, error) {
	return runner.Result{}, f.err
}
func (failing) Release(string) {}

func TestAConnectionThatIsLostDuringAPassIsNoErrorOfThePass(t *testing.T) {
	lost := fmt.Errorf("patch: %w", &cluster.NotConnectedError{Cluster: types.NamespacedName{Name: "c"}, Reason: cluster.ReasonUnreachable})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}, Spec: corev1.NodeSpec{ProviderID: "a://b"}}
	for name, step := range map[string]StepFunc{
		"propagate": propagateStep, "delete the Node": deleteNodeStep,
		"drain": func(ctx context.Context, s *Scope) (Result, error) { return s.drain(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{
				State: contract.MachineState{Metadata: contract.Metadata{Deleting: time.Unix(1, 0), Labels: map[string]string{"node-role.kubernetes.io/worker": ""}},
					MachineSpec: contract.MachineSpec{ProviderID: "a://b"}, Node: contract.NodeRef{Name: "n", UID: "u"}},
				Node: noderef.Match{Outcome: noderef.Matched, Node: node}, NodesSynced: true,
				Workload: Workload{Drainer: failing{lost}, Client: interceptor.NewClient(nil, interceptor.Funcs{
					Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
						return lost
					},
					Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return lost },
				})},
				env: &Reconciler{
					options: Options{Propagation: propagate.ClusterAPI()}, memory: newMemory(clocktesting.NewFakePassiveClock(time.Unix(1, 0))), writer: patch.NewWriter(nil, clocktesting.NewFakePassiveClock(time.Unix(1, 0))),
				},
			}
			result, err := step(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, conflictRetry, result.RequeueAfter)
		})
	}
}

// sourced are Nodes that write down who listens to them.
type sourced struct {
	Nodes
	mu        sync.Mutex
	listeners []context.Context
	synced    chan struct{}
}

func (s *sourced) Source(nodeindex.Mapper) source.SyncingSource { return s }

func (s *sourced) Start(ctx context.Context, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, ctx)
	return nil
}

func (s *sourced) WaitForSync(ctx context.Context) error {
	select {
	case <-s.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// heard counts who has ever listened, and who still does.
func (s *sourced) heard() (ever, now int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ctx := range s.listeners {
		if ctx.Err() == nil {
			now++
		}
	}
	return len(s.listeners), now
}

func TestOneConnectionIsListenedToOnceAndForAsLongAsItIsThere(t *testing.T) {
	key, machine := types.NamespacedName{Namespace: "ns", Name: "c"}, reconcile.Request{NamespacedName: types.NamespacedName{Name: "m"}}
	n := &nodeEvents{
		mapper:   func(context.Context, types.NamespacedName) nodeindex.Mapper { return nil },
		machines: func(context.Context, types.NamespacedName) []reconcile.Request { return []reconcile.Request{machine} },
		followed: map[types.NamespacedName]followed{},
	}
	first, second := &sourced{synced: make(chan struct{})}, &sourced{synced: make(chan struct{})}
	n.follow(key, Workload{Nodes: first})
	require.Empty(t, n.followed, "nobody to wake yet")
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	require.NoError(t, n.Start(t.Context(), queue))

	is := func(s *sourced, ever, now int) func() bool {
		return func() bool { e, n := s.heard(); return slices.Equal([]int{ever, now}, []int{e, n}) }
	}
	for range 3 {
		n.follow(key, Workload{Nodes: first})
	}
	require.Eventually(t, is(first, 1, 1), time.Minute, time.Millisecond)
	require.Zero(t, queue.Len())
	close(first.synced)
	require.Eventually(t, func() bool { return queue.Len() == 1 }, time.Minute, time.Millisecond, "the first list is there")

	n.follow(key, Workload{Nodes: second})
	require.Eventually(t, is(second, 1, 1), time.Minute, time.Millisecond)
	require.True(t, is(first, 1, 0)())
	n.follow(key, Workload{})
	require.True(t, is(second, 1, 0)())
	require.Empty(t, n.followed)
}

func TestOnlyWhatEndsWithAnEventIsUnread(t *testing.T) {
	for err, want := range map[error]bool{
		cluster.ErrNotConnected: true, cluster.ErrNotSynced: true, errNoCluster: true, errors.New("no idea"): false, context.Canceled: false,
	} {
		require.Equal(t, want, isUnread(fmt.Errorf("wrapped: %w", err)), err)
	}
}
