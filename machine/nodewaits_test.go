package machine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

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
		"nothing is there": {facts: nodeFacts{Synced: true, Match: none, Cluster: view(false, false)},
			want: infrastructure},
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
			if same := cmp.Equal(want, got); same != (tc.want != "") {
				t.Errorf("want %q, got %+v", tc.want, got)
			}
		})
	}
}

func TestTheHealthOfANodeIsReported(t *testing.T) {
	all := func(status corev1.ConditionStatus, message string) *corev1.Node {
		return nodeWith(says(corev1.NodeReady, status, message), says(corev1.NodeMemoryPressure, status, message),
			says(corev1.NodeDiskPressure, status, message), says(corev1.NodePIDPressure, status, message))
	}
	for name, tc := range map[string]struct {
		node   *corev1.Node
		status metav1.ConditionStatus
		says   string
		ready  string
	}{
		"a silent kubelet": {
			node: all(corev1.ConditionUnknown, "Kubelet stopped posting node status."), status: metav1.ConditionUnknown,
			says: "* Node.Ready: Kubelet stopped posting node status.\n* Node.MemoryPressure: Kubelet stopped posting node status.\n" +
				"* Node.DiskPressure: Kubelet stopped posting node status.\n* Node.PIDPressure: Kubelet stopped posting node status.",
			ready: "* Node.Ready: Kubelet stopped posting node status."},
		"no words": {
			node:   nodeWith(says(corev1.NodeReady, corev1.ConditionFalse, ""), says(corev1.NodeMemoryPressure, corev1.ConditionFalse, "")),
			status: metav1.ConditionFalse,
			says: "* Node.Ready: Condition is False\n* Node.DiskPressure: Condition not yet reported\n* Node.PIDPressure: Condition not yet " +
				"reported"},
		"all is well": {
			node: nodeWith(says(corev1.NodeReady, corev1.ConditionTrue, ""), says(corev1.NodeMemoryPressure, corev1.ConditionFalse, ""),
				says(corev1.NodeDiskPressure, corev1.ConditionFalse, ""), says(corev1.NodePIDPressure, corev1.ConditionFalse, "")),
			status: metav1.ConditionTrue},
		"in a fixed order": {
			node: nodeWith(says(corev1.NodeReady, corev1.ConditionUnknown, "a"), says(corev1.NodeMemoryPressure, corev1.ConditionTrue, "b"),
				says(corev1.NodeDiskPressure, corev1.ConditionFalse, ""), says(corev1.NodePIDPressure, corev1.ConditionFalse, "")),
			status: metav1.ConditionFalse, says: "* Node.Ready: a\n* Node.MemoryPressure: b", ready: "* Node.Ready: a"},
	} {
		t.Run(name, func(t *testing.T) {
			got := nodeFacts{Synced: true, Match: noderef.Match{Outcome: noderef.Matched, Node: tc.node}}.conditions()
			if got[1].Status != tc.status || got[1].Message != tc.says || got[0].Message != tc.ready {
				t.Errorf("want %s %q and Ready %q, got %+v", tc.status, tc.says, tc.ready, got)
			}
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
