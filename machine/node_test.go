package machine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
)

func nodeWith(conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Conditions: conditions}}
}

func says(kind corev1.NodeConditionType, status corev1.ConditionStatus, message string) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, Message: message}
}

func TestTheConditionsOfANodeBecomeThoseOfItsMachine(t *testing.T) {
	healthy := []corev1.NodeCondition{
		says(corev1.NodeMemoryPressure, corev1.ConditionFalse, ""), says(corev1.NodeDiskPressure, corev1.ConditionFalse, ""),
		says(corev1.NodePIDPressure, corev1.ConditionFalse, ""),
	}
	with := func(ready corev1.NodeCondition) *corev1.Node {
		return nodeWith(append([]corev1.NodeCondition{ready}, healthy...)...)
	}
	for name, tc := range map[string]struct {
		node           *corev1.Node
		ready, healthy metav1.Condition
	}{
		"ready": {
			node:    with(says(corev1.NodeReady, corev1.ConditionTrue, "posting")),
			ready:   engine.Condition(contract.ConditionNodeReady, metav1.ConditionTrue, ReasonNodeReady, ""),
			healthy: engine.Condition(ConditionNodeHealthy, metav1.ConditionTrue, ReasonNodeHealthy, ""),
		},
		"not ready": {
			node:    with(says(corev1.NodeReady, corev1.ConditionFalse, "no CNI")),
			ready:   engine.Condition(contract.ConditionNodeReady, metav1.ConditionFalse, ReasonNodeNotReady, "* Node.Ready: no CNI"),
			healthy: engine.Condition(ConditionNodeHealthy, metav1.ConditionFalse, ReasonNodeNotHealthy, "* Node.Ready: no CNI"),
		},
		"unknown": {
			node:    with(says(corev1.NodeReady, corev1.ConditionUnknown, "silent")),
			ready:   engine.Condition(contract.ConditionNodeReady, metav1.ConditionUnknown, ReasonNodeReadyUnknown, "* Node.Ready: silent"),
			healthy: engine.Condition(ConditionNodeHealthy, metav1.ConditionUnknown, ReasonNodeHealthUnknown, "* Node.Ready: silent"),
		},
		"joined a moment ago": {
			node: nodeWith(healthy...),
			ready: engine.Condition(contract.ConditionNodeReady, metav1.ConditionUnknown, ReasonNodeReadyUnknown,
				"* Node.Ready: Condition not yet reported"),
			healthy: engine.Condition(ConditionNodeHealthy, metav1.ConditionUnknown, ReasonNodeHealthUnknown,
				"* Node.Ready: Condition not yet reported"),
		},
		"under pressure": {
			node: nodeWith(says(corev1.NodeReady, corev1.ConditionTrue, ""), says(corev1.NodeMemoryPressure, corev1.ConditionTrue, "full"),
				healthy[1], healthy[2]),
			ready:   engine.Condition(contract.ConditionNodeReady, metav1.ConditionTrue, ReasonNodeReady, ""),
			healthy: engine.Condition(ConditionNodeHealthy, metav1.ConditionFalse, ReasonNodeNotHealthy, "* Node.MemoryPressure: full"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := nodeFacts{Synced: true, Match: noderef.Match{Outcome: noderef.Matched, Node: tc.node}}.conditions()
			if diff := cmp.Diff([]metav1.Condition{tc.ready, tc.healthy}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAMachineWithoutANodeSaysWhy(t *testing.T) {
	going := time.Unix(1, 0)
	known := contract.MachineSpec{ProviderID: "a://b"}
	infra := contract.Ref{Group: "g", Kind: "FakeMachine", Name: "m"}
	joined := contract.NodeRef{Name: "n"}
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "a://other"}}
	same := corev1.NodeSpec{ProviderID: "a://b"}
	two := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: same}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: same}}
	contested := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}, Spec: same}
	rival := types.NamespacedName{Namespace: "ns", Name: "rival"}
	me := contract.Metadata{Key: types.NamespacedName{Namespace: "ns", Name: "me"}}
	for name, tc := range map[string]struct {
		match    noderef.Match
		state    contract.MachineState
		disowned bool
		status   metav1.ConditionStatus
		reason   string
		says     string
	}{
		"no provider ID": {
			match:  noderef.Match{Outcome: noderef.NoProviderID},
			state:  contract.MachineState{MachineSpec: contract.MachineSpec{Infrastructure: infra}},
			status: metav1.ConditionUnknown, reason: contract.ReasonInspectionFailed, says: "Waiting for FakeMachine to report spec.providerID"},
		"no provider ID, and its Node is gone": {
			match: noderef.Match{Outcome: noderef.NoProviderID}, state: contract.MachineState{Node: joined},
			status: metav1.ConditionFalse, reason: ReasonNodeDeleted, says: "Node n has been deleted while the Machine still exists"},
		"no provider ID, and its Node is there": {
			match: noderef.Match{Outcome: noderef.NoProviderID}, disowned: true,
			state:  contract.MachineState{Node: joined, Metadata: contract.Metadata{Deleting: going}},
			status: metav1.ConditionUnknown, reason: contract.ReasonInspectionFailed, says: "Waiting for the machine to report spec.providerID"},
		"no provider ID in a deletion": {
			match: noderef.Match{Outcome: noderef.NoProviderID}, state: contract.MachineState{Metadata: contract.Metadata{Deleting: going}},
			status: metav1.ConditionUnknown, reason: ReasonNodeDoesNotExist, says: "Node does not exist"},
		"no provider ID in a deletion, and its Node is gone": {
			match:  noderef.Match{Outcome: noderef.NoProviderID},
			state:  contract.MachineState{Node: joined, Metadata: contract.Metadata{Deleting: going}},
			status: metav1.ConditionFalse, reason: ReasonNodeDeleted, says: "Node n has been deleted"},
		"not joined": {
			match: noderef.Match{Outcome: noderef.NotFound}, state: contract.MachineState{MachineSpec: known},
			status: metav1.ConditionUnknown, reason: contract.ReasonInspectionFailed,
			says: "Waiting for a Node with spec.providerID a://b to exist"},
		"gone": {
			match: noderef.Match{Outcome: noderef.NotFound}, state: contract.MachineState{MachineSpec: known, Node: joined},
			status: metav1.ConditionFalse, reason: ReasonNodeDeleted, says: "Node n has been deleted while the Machine still exists"},
		"gone in a deletion": {
			match:  noderef.Match{Outcome: noderef.NotFound},
			state:  contract.MachineState{MachineSpec: known, Node: joined, Metadata: contract.Metadata{Deleting: going}},
			status: metav1.ConditionFalse, reason: ReasonNodeDeleted, says: "Node n has been deleted"},
		"never there in a deletion": {
			match:  noderef.Match{Outcome: noderef.NotFound},
			state:  contract.MachineState{MachineSpec: known, Metadata: contract.Metadata{Deleting: going}},
			status: metav1.ConditionUnknown, reason: ReasonNodeDoesNotExist, says: "Node does not exist"},
		"taken over": {
			match:  noderef.Match{Outcome: noderef.Stale, Other: other},
			state:  contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "a://b", Infrastructure: infra}, Node: joined},
			status: metav1.ConditionFalse, reason: ReasonNodeDeleted,
			says: `Node n is another machine's and is left alone: its spec.providerID is "a://other", this Machine's is "a://b": ` +
				"correct that if it is wrong, or wait for a Node that has it"},
		"claimed twice": {
			match: noderef.Match{Outcome: noderef.Ambiguous, Candidates: two}, state: contract.MachineState{MachineSpec: known},
			status: metav1.ConditionUnknown, reason: contract.ReasonAmbiguousNode,
			says: "several Nodes have spec.providerID a://b: a, b; delete those that are not this machine's"},
		"another Machine's": {
			match: noderef.Match{Outcome: noderef.Claimed, Other: contested, Rivals: []noderef.Claim{{Machine: rival}}},
			state: contract.MachineState{MachineSpec: known, Metadata: me}, status: metav1.ConditionUnknown, reason: contract.ReasonNodeClaimed,
			says: `Node n is left alone until it is clear whose it is: Machine ns/rival and this Machine ns/me both have spec.providerID "a://b": correct or delete those that are wrong`},
	} {
		t.Run(name, func(t *testing.T) {
			want := []metav1.Condition{
				engine.Condition(contract.ConditionNodeReady, tc.status, tc.reason, tc.says),
				engine.Condition(ConditionNodeHealthy, tc.status, tc.reason, tc.says),
			}
			if diff := cmp.Diff(want, nodeFacts{Synced: true, Match: tc.match, State: &tc.state, Disowned: tc.disowned}.conditions()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// broken is a cache that answers nothing.
type broken struct{ cache.Cache }

var errBroken = errors.New("the cache is broken")

func (broken) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errBroken
}
func (broken) List(context.Context, client.ObjectList, ...client.ListOption) error { return errBroken }
func (broken) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, errBroken
}

// known are Nodes that are all listed.
type known struct{ *noderef.Index }

func (known) HasSynced() bool { return true }

func TestWhatCouldNotBeReadIsUnknownInEachConditionAndNoNodeIsTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		step engine.StepFunc[*Scope]
		want []string
	}{
		"the Machines that may claim the Node": {nodeStep, []string{contract.ConditionNodeReady, ConditionNodeHealthy}},
		"the bootstrap config":                 {bootstrapStep, []string{contract.ConditionBootstrapConfigReady}},
		"the infrastructure":                   {infrastructureStep, []string{contract.ConditionInfrastructureReady}},
	} {
		t.Run(name, func(t *testing.T) {
			s := scopeWithVolumes(nil, time.Unix(1000, 0), 0)
			node := nodeWith()
			node.UID, node.Spec.ProviderID = "n-uid", "a://b"
			nodes := noderef.NewIndex(noderef.Rules{})
			nodes.Add(node)
			s.State.Node, s.State.ProviderID, s.Node = contract.NodeRef{}, "a://b", noderef.Match{}
			s.State.Bootstrap, s.State.Infrastructure = contract.Ref{Group: "g", Kind: "B", Name: "m"}, contract.Ref{Group: "g", Kind: "I",
				Name: "m"}
			s.Workload.Nodes = known{nodes}
			s.env.indexed, s.env.frame.Ports.Cache, s.env.frame.Tracker = true, broken{}, external.NewTracker(broken{}, nil, "test")
			_, err := tc.step(t.Context(), s)
			require.ErrorIs(t, err, errBroken)
			var got []string
			for _, c := range s.Asserted {
				require.Equal(t, engine.Condition(c.Type, metav1.ConditionUnknown, contract.ReasonInternalError, engine.SeeLogs), c)
				got = append(got, c.Type)
			}
			require.ElementsMatch(t, tc.want, got)
			require.True(t, s.Update.Node.Keeps(), "another Machine may have it")
		})
	}
}
