package healthcheck

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

// NodeState is what is known about the Node of a Machine.
type NodeState uint8

// Values of NodeState. Only NodeGone makes a Machine unhealthy by itself.
const (
	// NodeUnread: nothing is known. It is the zero value, so that what was not read is not taken for missing.
	NodeUnread NodeState = iota
	// NodeNone: no Node was ever recorded for the Machine.
	NodeNone
	// NodePresent: the Node exists.
	NodePresent
	// NodeGone: the recorded Node does not exist.
	NodeGone
)

// Facts are the inputs of Evaluate. They are read, never changed or kept.
type Facts struct {
	Machine *contract.MachineState
	// Node is the Node for NodePresent. Find returns both.
	Node      *corev1.Node
	NodeState NodeState
	// Cluster is nil where Machines have no Clusters. Before its control plane is initialized and its infrastructure is ready, as in the zero
	// state, Machines are not judged.
	Cluster *contract.ClusterState
	Checks  *Checks
	// Reach is that of the API servers that the Machine depends on.
	Reach Reach
	Now   time.Time
}

// Reach says whether API servers answer. The zero Reach is that of servers that always did. machineset/guard.Gate finds it out.
type Reach struct {
	// Silent: one of them has not answered yet, or not for too long. Nothing is judged.
	Silent bool
	// AnsweredAt is when they answered again after an outage, zero without one. No limit begins before: a fleet that could not report during
	// an outage is not replaced at its end. It may be yet to come, while caches are behind.
	AnsweredAt time.Time
}

// Find returns the recorded Node of a Machine. nodes are nil while they cannot be read. The Node with the recorded UID is the Machine's,
// also where a provider has changed the form of the Machine's provider ID. A Node of the recorded name that is another one is not: where
// both its UID and its provider ID differ, the Machine's Node is gone, and where one of these is unknown, nothing is known until the
// Machine's own reconciler has matched it. NodeGone needs a live read before a Machine is marked for it: nodes may be behind.
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
	// DefaultNodeStartup is how long a Machine may be without a Node when a check does not say it. The value is Cluster API's.
	DefaultNodeStartup = 10 * time.Minute
	// SkipAnnotation of a Machine, with any value, keeps checks from judging it. Rule: Cluster API's.
	SkipAnnotation = "cluster.x-k8s.io/skip-remediation"
)

// Checks are what makes a Machine unhealthy. The zero Checks find only Nodes that were deleted and Machines that failed: one without a Node
// whose failureReason or failureMessage is set is unhealthy at once, because its provider has said that its creation will not succeed.
type Checks struct {
	// Node and Machine are rules about conditions of the Node, those of node-problem-detector included, and of the Machine. A Machine is
	// unhealthy when one of them applies.
	Node, Machine []contract.HealthRule
	// NodeStartup is how long a Machine may be without a Node: since it was created, the Cluster was ready or its own infrastructure was
	// ready, whichever was last. Zero: for ever.
	NodeStartup time.Duration
	// Join is how long a Machine may be without a Node since its infrastructure was ready. Zero: for ever.
	Join time.Duration
}

// ChecksOf returns the checks of a MachineHealthCheck, with its default.
func ChecksOf(check *contract.HealthCheckState) Checks {
	return Checks{Node: check.NodeRules, Machine: check.MachineRules, NodeStartup: check.NodeStartup.Or(DefaultNodeStartup)}
}
