package machine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

func TestTheReportOfAMachineWhoseNodeCannotBeRead(t *testing.T) {
	now := time.Unix(1000, 0)
	down := func(reason cluster.Reason) error {
		return &cluster.NotConnectedError{Cluster: types.NamespacedName{Name: "c"}, Reason: reason}
	}
	const minute = time.Minute
	ready := engine.Condition(contract.ConditionNodeReady, metav1.ConditionTrue, ReasonNodeReady, "")
	said := engine.Condition(contract.ConditionNodeReady, metav1.ConditionUnknown, contract.ReasonConnectionDown, "")
	for name, tc := range map[string]struct {
		err    error
		stored metav1.Condition
		since  time.Duration // for how long the Nodes are unread
		want   string        // empty: the stored condition stays
		again  time.Duration
	}{
		"it has just happened":    {err: down(cluster.ReasonUnreachable), stored: ready, again: 5 * minute},
		"it happened a while ago": {err: down(cluster.ReasonUnreachable), stored: ready, since: minute, again: 4 * minute},
		"it happened long ago": {err: down(cluster.ReasonUnreachable), stored: ready, since: 5 * minute,
			want: contract.ReasonConnectionDown},
		"the Machine waits for its Node": {err: down(cluster.ReasonUnreachable), want: contract.ReasonConnectionDown,
			stored: engine.Condition(contract.ConditionNodeReady, metav1.ConditionUnknown, contract.ReasonInspectionFailed, "")},
		"it said so before":            {err: down(cluster.ReasonUnreachable), stored: said, want: contract.ReasonConnectionDown},
		"the process has just begun":   {err: down(cluster.ReasonConnecting), stored: said},
		"and the Machine too":          {err: down(cluster.ReasonConnecting), want: contract.ReasonConnectionDown},
		"the process ends":             {err: down(cluster.ReasonStopped), stored: ready},
		"by a connection of one's own": {err: cluster.ErrNotConnected, stored: said, want: contract.ReasonConnectionDown},
		"the first list is not there":  {want: contract.ReasonInspectionFailed},
		"the first list after a start": {stored: ready},
		"a list that was there before": {err: cluster.ErrNotSynced, stored: ready, since: 5 * minute, want: contract.ReasonInspectionFailed},
		"the reason is not understood": {err: errors.New("attempt 17 failed"), want: contract.ReasonInternalError},
		"and it was well a moment ago": {err: errors.New("attempt 17 failed"), stored: ready, again: 5 * minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := attached(&Scope{
				Scope: base{Now: now}, NodesErr: tc.err, Workload: Workload{Nodes: unlistedNodes{}},
				env: testReconciler(testKind(), Ports{}, Options{ConnectionGrace: 5 * minute}),
			})
			if tc.stored.Type != "" {
				s.Stored = bothOfNode(tc.stored.Status, tc.stored.Reason, "")
			}
			if tc.since > 0 {
				s.memory.unreadSince = now.Add(-tc.since)
			}
			_, err := nodeStep(t.Context(), s)
			require.Equal(t, tc.err != nil && !cluster.IsUnread(tc.err), err != nil)
			s.keepUnread()
			require.Equal(t, tc.again, s.RequeueAfter())
			for _, kind := range []string{contract.ConditionNodeReady, ConditionNodeHealthy} {
				got, _ := engine.Find(s.Asserted, kind)
				require.Equal(t, tc.want, got.Reason, kind)
			}
		})
	}
}

// unlistedNodes is an index whose first list is not complete.
type unlistedNodes struct{ namedNodes }

func (unlistedNodes) HasSynced() bool            { return false }
func (unlistedNodes) ByName(string) *corev1.Node { return nil }

// failing is a Drainer that cannot reach its cluster.
type failing struct{ err error }

func (f failing) Step(context.Context, runner.Request) (runner.Result, error) {
	return runner.Result{}, f.err
}
func (failing) Release(string) {}

func TestAConnectionThatIsLostDuringAPassIsNoErrorOfThePass(t *testing.T) {
	lost := fmt.Errorf("patch: %w", &cluster.NotConnectedError{Cluster: types.NamespacedName{Name: "c"}, Reason: cluster.ReasonUnreachable})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}, Spec: corev1.NodeSpec{ProviderID: "a://b"}}
	for name, step := range map[string]engine.StepFunc[*Scope]{
		"propagate": propagateStep, "delete the Node": deleteNodeStage().run,
		"drain": func(ctx context.Context, s *Scope) (Result, error) { return s.drain(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			s := attached(&Scope{
				Scope: base{State: contract.MachineState{
					Metadata:    contract.Metadata{Deleting: time.Unix(1, 0), Labels: map[string]string{"node-role.kubernetes.io/worker": ""}},
					MachineSpec: contract.MachineSpec{ProviderID: "a://b"}, Node: contract.NodeRef{Name: "n", UID: "u"}}},
				Node: noderef.Match{Outcome: noderef.Matched, Node: node}, NodesSynced: true,
				Workload: Workload{Drainer: failing{lost}, Client: interceptor.NewClient(nil, interceptor.Funcs{
					Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
						return lost
					},
					Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return lost },
				})},
				env: testReconciler(testKind(), Ports{}, Options{
					Options: engine.Options{Clock: clocktesting.NewFakePassiveClock(time.Unix(1, 0))}, Propagation: propagate.ClusterAPI(),
				}),
			})
			result, err := step(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, engine.ConflictRetry, result.RequeueAfter)
		})
	}
}
