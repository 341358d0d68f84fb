package machine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	unknown := func(reason string) unreadDecision {
		return unreadDecision{Conditions: []metav1.Condition{
			engine.Condition(contract.ConditionNodeReady, metav1.ConditionUnknown, reason, "why"),
			engine.Condition(ConditionNodeHealthy, metav1.ConditionUnknown, reason, "why"),
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
		"its Node was read a moment ago": {ready, unreadDecision{Again: 4 * time.Minute}},
		"its Node was read long ago": {with(func(f *unreadFacts) { f.Since = now.Add(-5 * time.Minute) }),
			unknown(contract.ReasonConnectionDown)},
		"since when is unknown": {with(func(f *unreadFacts) { f.Since = time.Time{} }), unknown(contract.ReasonConnectionDown)},
		"it waits for its Node": {with(func(f *unreadFacts) { f.HasNode, f.Said = false, contract.ReasonInspectionFailed }),
			unknown(contract.ReasonConnectionDown)},
		"it said so before": {with(func(f *unreadFacts) { f.Said = contract.ReasonConnectionDown }),
			unknown(contract.ReasonConnectionDown)},
		"the process has just begun": {with(func(f *unreadFacts) { f.Early, f.Said = true, contract.ReasonConnectionDown }),
			unreadDecision{}},
		"and the Machine too":               {unreadFacts{Down: true, Early: true}, unknown(contract.ReasonConnectionDown)},
		"the first list is not there":       {unreadFacts{}, unknown(contract.ReasonInspectionFailed)},
		"not even the reason is understood": {unreadFacts{Failed: true}, unknown(contract.ReasonInternalError)},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Message, tc.facts.Now = "why", now
			if diff := cmp.Diff(tc.want, decideUnread(tc.facts)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The passes of a process that ends see that its connections have ended before they end themselves.
func TestAProcessThatBeginsOrEndsLeavesTheReadinessOfAMachineAsItIs(t *testing.T) {
	for reason, leaves := range map[cluster.Reason]bool{
		cluster.ReasonConnecting: true, cluster.ReasonStopped: true, cluster.ReasonUnreachable: false,
	} {
		s := attached(&Scope{
			Scope: base{
				State: contract.MachineState{Node: contract.NodeRef{Name: "n", UID: "u"}},
				Stored: []metav1.Condition{
					engine.Condition(contract.ConditionNodeReady, metav1.ConditionTrue, ReasonNodeReady, "")},
			},
			NodesErr: &cluster.NotConnectedError{Cluster: types.NamespacedName{Name: "c"}, Reason: reason},
			env:      testReconciler(testKind(), Ports{}, Options{}),
		})
		require.Equal(t, leaves, len(decideUnread(s.unreadFacts()).Conditions) == 0, "%s", reason)
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
