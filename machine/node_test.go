package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

func nodeWith(conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Conditions: conditions}}
}

func says(kind corev1.NodeConditionType, status corev1.ConditionStatus, message string) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, Message: message}
}

// textOf returns conditions as text, in their order.
func textOf(conditions []metav1.Condition) (all []string) {
	for _, c := range conditions {
		all = append(all, strings.TrimSpace(c.Type+"="+string(c.Status)+" "+c.Reason+" "+c.Message))
	}
	return all
}

func TestTheConditionsOfANodeBecomeThoseOfItsMachine(t *testing.T) {
	const yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	const silent = "Kubelet stopped posting node status."
	well := []corev1.NodeCondition{
		says(corev1.NodeMemoryPressure, no, ""), says(corev1.NodeDiskPressure, no, ""), says(corev1.NodePIDPressure, no, ""),
	}
	with := func(status corev1.ConditionStatus, message string, others ...corev1.NodeCondition) *corev1.Node {
		return nodeWith(append([]corev1.NodeCondition{says(corev1.NodeReady, status, message)}, others...)...)
	}
	for name, tc := range map[string]struct {
		node           *corev1.Node
		ready, healthy string
	}{
		"ready":     {with(yes, "posting", well...), "True NodeReady", "True NodeHealthy"},
		"not ready": {with(no, "no CNI", well...), "False NodeNotReady * Node.Ready: no CNI", "False NodeNotHealthy * Node.Ready: no CNI"},
		"unknown": {with(unknown, "silent", well...), "Unknown NodeReadyUnknown * Node.Ready: silent",
			"Unknown NodeHealthyUnknown * Node.Ready: silent"},
		"joined a moment ago": {nodeWith(well...), "Unknown NodeReadyUnknown * Node.Ready: Condition not yet reported",
			"Unknown NodeHealthyUnknown * Node.Ready: Condition not yet reported"},
		"under pressure": {with(yes, "", says(corev1.NodeMemoryPressure, yes, "full"), well[1], well[2]), "True NodeReady",
			"False NodeNotHealthy * Node.MemoryPressure: full"},
		"without words": {with(no, "", well[0]), "False NodeNotReady", "False NodeNotHealthy " +
			"* Node.Ready: Condition is False\n* Node.DiskPressure: Condition not yet reported\n* Node.PIDPressure: Condition not yet reported"},
		"all unknown": {with(unknown, silent, says(corev1.NodeMemoryPressure, unknown, silent), well[1], well[2]),
			"Unknown NodeReadyUnknown * Node.Ready: " + silent,
			"Unknown NodeHealthyUnknown * Node.Ready: " + silent + "\n* Node.MemoryPressure: " + silent},
		"bad news before unknown ones": {with(unknown, "a", says(corev1.NodeMemoryPressure, yes, "b"), well[1], well[2]),
			"Unknown NodeReadyUnknown * Node.Ready: a", "False NodeNotHealthy * Node.Ready: a\n* Node.MemoryPressure: b"},
	} {
		t.Run(name, func(t *testing.T) {
			got := nodeFacts{Synced: true, Match: noderef.Match{Outcome: noderef.Matched, Node: tc.node}}.conditions()
			require.Equal(t, []string{"NodeReady=" + tc.ready, "NodeHealthy=" + tc.healthy}, textOf(got))
		})
	}
}

func TestAMachineWithoutANode(t *testing.T) {
	state := func(id string, node contract.NodeRef, changes ...func(*contract.MachineState)) (s contract.MachineState) {
		s.ProviderID, s.Node = id, node
		for _, change := range changes {
			change(&s)
		}
		return s
	}
	deleting := func(s *contract.MachineState) { s.Deleting = time.Unix(1, 0) }
	infra := func(s *contract.MachineState) {
		s.Infrastructure = contract.Ref{Group: "g", Kind: "FakeMachine", Name: "m"}
	}
	me := func(s *contract.MachineState) { s.Key = types.NamespacedName{Namespace: "ns", Name: "me"} }
	const known = "a://b"
	joined, never := contract.NodeRef{Name: "n"}, contract.NodeRef{}
	node := func(name, id string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u"}, Spec: corev1.NodeSpec{ProviderID: id}}
	}
	rival := []noderef.Claim{{Machine: types.NamespacedName{Namespace: "ns", Name: "rival"}}}
	for name, tc := range map[string]struct {
		match    noderef.Match
		state    contract.MachineState
		disowned bool
		want     string
	}{
		"no provider ID": {match: noderef.Match{Outcome: noderef.NoProviderID}, state: state("", never, infra),
			want: "Unknown InspectionFailed Waiting for FakeMachine to report spec.providerID"},
		"no provider ID, and its Node is gone": {match: noderef.Match{Outcome: noderef.NoProviderID}, state: state("", joined),
			want: "False NodeDeleted Node n has been deleted while the Machine still exists"},
		"no provider ID, and its Node is there": {match: noderef.Match{Outcome: noderef.NoProviderID}, state: state("", joined, deleting),
			disowned: true, want: "Unknown InspectionFailed Waiting for the machine to report spec.providerID"},
		"no provider ID in a deletion": {match: noderef.Match{Outcome: noderef.NoProviderID}, state: state("", never, deleting),
			want: "Unknown NodeDoesNotExist Node does not exist"},
		"no provider ID in a deletion, and its Node is gone": {match: noderef.Match{Outcome: noderef.NoProviderID},
			state: state("", joined, deleting), want: "False NodeDeleted Node n has been deleted"},
		"not joined": {match: noderef.Match{Outcome: noderef.NotFound}, state: state(known, never),
			want: "Unknown InspectionFailed Waiting for a Node with spec.providerID a://b to exist"},
		"gone": {match: noderef.Match{Outcome: noderef.NotFound}, state: state(known, joined),
			want: "False NodeDeleted Node n has been deleted while the Machine still exists"},
		"gone in a deletion": {match: noderef.Match{Outcome: noderef.NotFound}, state: state(known, joined, deleting),
			want: "False NodeDeleted Node n has been deleted"},
		"never there in a deletion": {match: noderef.Match{Outcome: noderef.NotFound}, state: state(known, never, deleting),
			want: "Unknown NodeDoesNotExist Node does not exist"},
		"taken over": {match: noderef.Match{Outcome: noderef.Stale, Other: node("n", "a://other")}, state: state(known, joined, infra),
			want: `False NodeDeleted Node n is another machine's and is not touched: its spec.providerID is "a://other", this Machine's is "a://b"` +
				": correct that if it is wrong, or wait for a Node that has it"},
		"claimed twice": {match: noderef.Match{Outcome: noderef.Ambiguous, Candidates: []*corev1.Node{node("a", known), node("b", known)}},
			state: state(known, never),
			want:  "Unknown AmbiguousNode several Nodes have spec.providerID a://b: a, b; delete those that are not this machine's"},
		"another Machine's": {match: noderef.Match{Outcome: noderef.Claimed, Other: node("n", known), Rivals: rival},
			state: state(known, never, me),
			want: "Unknown NodeClaimed Node n is not touched until it is clear whose it is: Machine ns/rival and this Machine ns/me both have " +
				`spec.providerID "a://b": correct or delete those that are wrong`},
	} {
		t.Run(name, func(t *testing.T) {
			got := nodeFacts{Synced: true, Match: tc.match, State: &tc.state, Disowned: tc.disowned}.conditions()
			require.Equal(t, []string{"NodeReady=" + tc.want, "NodeHealthy=" + tc.want}, textOf(got))
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

// nodeFacts are what a pass has read about the Node of a Machine.
type nodeFacts struct {
	Synced   bool
	Match    noderef.Match
	State    *contract.MachineState
	Disowned bool // the recorded Node exists
	Cluster  external.ClusterView
}

func (f nodeFacts) conditions() []metav1.Condition {
	s := &Scope{NodesSynced: f.Synced, Node: f.Match, Workload: Workload{Nodes: unlistedNodes{}}}
	s.Cluster = f.Cluster
	if f.State != nil {
		s.State = *f.State
	}
	if f.Disowned {
		s.Workload.Nodes = namedNodes{}
	}
	return s.nodeConditions()
}

func TestAMachineWaitsForItsClusterBeforeItLooksForItsNode(t *testing.T) {
	const (
		infrastructure = "Waiting for Cluster status.initialization.infrastructureProvisioned to be true"
		controlPlane   = "Waiting for Cluster control plane to be initialized"
	)
	node := noderef.Match{Outcome: noderef.Matched, Node: nodeWith(says(corev1.NodeReady, corev1.ConditionTrue, ""))}
	none := noderef.Match{Outcome: noderef.NotFound}
	deleting := contract.Metadata{Deleting: time.Unix(1, 0)}
	view := func(infrastructure, controlPlane bool) external.ClusterView {
		return external.ClusterView{Presence: external.Present, State: contract.ClusterState{
			InfrastructureProvisioned: infrastructure, ControlPlaneInitialized: controlPlane}}
	}
	for name, tc := range map[string]struct {
		facts nodeFacts
		state contract.MachineState
		want  string // the message of InspectionFailed, empty when something else is said
	}{
		"nothing is there":                   {facts: nodeFacts{Synced: true, Match: none, Cluster: view(false, false)}, want: infrastructure},
		"the infrastructure is":              {facts: nodeFacts{Synced: true, Match: none, Cluster: view(true, false)}, want: controlPlane},
		"even though its Node is":            {facts: nodeFacts{Synced: true, Match: node, Cluster: view(true, false)}, want: controlPlane},
		"and while its Nodes cannot be read": {facts: nodeFacts{Cluster: view(false, false)}, want: infrastructure},
		"all is there":                       {facts: nodeFacts{Synced: true, Match: node, Cluster: view(true, true)}},
		"there are no Clusters":              {facts: nodeFacts{Synced: true, Match: node}},
		"the Cluster could not be read": {
			facts: nodeFacts{Synced: true, Match: node, Cluster: external.ClusterView{Presence: external.Unread}}},
		"the Cluster is gone": {
			facts: nodeFacts{Synced: true, Match: node, Cluster: external.ClusterView{Presence: external.Absent}}},
		"in a deletion its Node is not hidden": {facts: nodeFacts{Synced: true, Match: node, Cluster: view(false, false)},
			state: contract.MachineState{Metadata: deleting}},
		"nor that it is gone": {facts: nodeFacts{Synced: true, Match: none, Cluster: view(false, false)},
			state: contract.MachineState{Metadata: deleting, Node: contract.NodeRef{Name: "n"}}},
		"in a deletion of one that never had it": {facts: nodeFacts{Synced: true, Match: none, Cluster: view(true, false)},
			state: contract.MachineState{Metadata: deleting}, want: controlPlane},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.State = &tc.state
			got := tc.facts.conditions()
			want := bothOfNode(metav1.ConditionUnknown, contract.ReasonInspectionFailed, tc.want)
			require.Equal(t, tc.want != "", cmp.Equal(want, got))
		})
	}
}

func TestTheMessageAboutUnreadNodes(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "c"}
	down := fmt.Errorf("nodes: %w", &cluster.NotConnectedError{Cluster: key, Reason: cluster.ReasonUnreachable, Err: errors.New("refused"),
		LastSeen: time.Unix(1_700_000_000, 0)})
	for name, tc := range map[string]struct {
		scope *Scope
		says  string
	}{
		"a connection that is lost": {scope: &Scope{NodesErr: down}, says: down.Error()},
		"the reason is unknown":     {scope: &Scope{NodesErr: errors.New("attempt 17 failed")}, says: "Please check controller logs for errors"},
		"the first list":            {scope: &Scope{cluster: key}, says: "Waiting for the first list of Nodes of cluster ns/c"},
		"the first list of all":     {scope: &Scope{}, says: "Waiting for the first list of Nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.says, tc.scope.nodesUnread()[0].Message)
		})
	}
}

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
		"the process has just begun":   {err: down(cluster.ReasonConnecting), stored: ready, again: 5 * minute},
		"and the Machine too":          {err: down(cluster.ReasonConnecting), want: contract.ReasonConnectionDown},
		"the process ends":             {err: down(cluster.ReasonStopped), stored: ready, again: 5 * minute},
		"by a connection of one's own": {err: cluster.ErrNotConnected, stored: said, want: contract.ReasonConnectionDown},
		"the first list is not there":  {want: contract.ReasonInspectionFailed},
		"the first list after a start": {stored: ready, again: 5 * minute},
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
