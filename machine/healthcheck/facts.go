package healthcheck

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

// NodeState is the state of a Machine's Node.
type NodeState uint8

// Values of NodeState. Only NodeGone alone makes a Machine unhealthy.
const (
	// NodeUnread: the Node was not read. It is the zero value, so that an unread Node does not count as missing.
	NodeUnread NodeState = iota
	// NodeNone: no Node was ever recorded for the Machine.
	NodeNone
	// NodePresent: the Node exists.
	NodePresent
	// NodeGone: the recorded Node does not exist.
	NodeGone
)

// Facts are the inputs of Evaluate. They are neither changed nor kept.
type Facts struct {
	Machine *contract.MachineState
	// Node is the Node for NodePresent. Find returns both.
	Node      *corev1.Node
	NodeState NodeState
	// Cluster is nil if Machines have no Clusters. Machines are not judged before its control plane is initialized and its infrastructure is
	// ready, as in the zero state.
	Cluster *contract.ClusterState
	Checks  *Checks
	// Reach is the reachability of the API servers that the Machine depends on.
	Reach Reach
	Now   time.Time
}

// Reach reports whether API servers respond. The zero Reach means that they always have. machineset/guard.Gate determines it.
type Reach struct {
	// Silent: one of them has not responded yet, or not for too long. Nothing is judged.
	Silent bool
	// AnsweredAt is when they responded again after an outage, zero without one. No limit begins earlier, so that a fleet that could not
	// report during an outage is not replaced at its end. It may be in the future, while caches are behind.
	AnsweredAt time.Time
}

// Find returns the recorded Node of a Machine. nodes are nil while they cannot be read. The Node with the recorded UID is the Machine's,
// even if a provider has changed the form of the Machine's provider ID. If a Node with the recorded name differs in both UID and provider
// ID, the Machine's Node is gone; if one of these is unknown, the result is NodeUnread until the Machine's own reconciler has matched the
// Node. Before a Machine is marked for NodeGone, a live read is needed, because nodes may be behind.
func Find(machine *contract.MachineState, nodes noderef.Lookup, rules noderef.Rules) (*corev1.Node, NodeState) {
	switch {
	case nodes == nil:
		return nil, NodeUnread
	case machine.Node.Name == "":
		return nil, NodeNone
	}
	node, of := nodes.ByName(machine.Node.Name), machine.Node.UID
	if node == nil {
		return nil, NodeGone
	}
	known := noderef.ValidProviderID(node.Spec.ProviderID) && noderef.ValidProviderID(machine.ProviderID)
	switch { // a Node that has registered again has another UID; one whose provider ID is written in another form is known where the rules are
	case of != "" && of == node.UID, known && rules.Same(node.Spec.ProviderID, machine.ProviderID), !known && of == "":
		return node, NodePresent
	case known && of != "":
		return nil, NodeGone
	}
	return nil, NodeUnread
}

const (
	// defaultNodeStartup is how long a Machine may be without a Node if a check does not set it. The value is Cluster API's.
	defaultNodeStartup = 10 * time.Minute
	// SkipAnnotation of a Machine, with any value, excludes it from checks. Rule: Cluster API's.
	SkipAnnotation = "cluster.x-k8s.io/skip-remediation"
)

// Checks define what makes a Machine unhealthy. The zero Checks find only Nodes that were deleted and Machines that failed: a Machine
// without a Node whose failureReason or failureMessage is set is unhealthy at once, because its provider reports that its creation will not
// succeed.
type Checks struct {
	// Node and Machine are rules about conditions of the Node, including those of node-problem-detector, and of the Machine. A Machine is
	// unhealthy when one of them applies.
	Node, Machine []contract.HealthRule
	// NodeStartup is how long a Machine may be without a Node after the latest of three times: its creation, the readiness of the Cluster and
	// the readiness of its infrastructure. Zero: forever.
	NodeStartup time.Duration
	// Join is how long a Machine may be without a Node after its infrastructure was ready. Zero: forever.
	Join time.Duration
}

// ChecksOf returns the checks of a MachineHealthCheck, with its default.
func ChecksOf(check *contract.HealthCheckState) Checks {
	return Checks{Node: check.NodeRules, Machine: check.MachineRules, NodeStartup: check.NodeStartup.Or(defaultNodeStartup)}
}
