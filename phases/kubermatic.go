package phases

// Phases that Kubermatic's machine-controller has and Cluster API does not. Rule: the states of its architecture page.
const (
	Validating Phase = "Validating"
	Joining    Phase = "Joining"
)

// KubermaticFacts are the input of Kubermatic's dialect.
type KubermaticFacts struct {
	// Deleting: deletion was requested. Gone: instance and Node no longer exist.
	Deleting, Gone bool
	// Failed: a terminal error was reported, such as an invalid configuration (status.errorReason).
	Failed bool
	// Held: the Machine is paused, or its initializers annotation is not empty.
	Held bool
	// Valid: defaults were applied and the provider accepted the spec.
	Valid bool
	// HasInstance: an instance was created. HasAddresses: the instance has at least one usable address.
	HasInstance, HasAddresses bool
	// HasNode: status.nodeRef is set. NodeWasReady: that Node was Ready at least once.
	HasNode, NodeWasReady bool
}

var kubermatic = Table[KubermaticFacts]{rules: []Rule[KubermaticFacts]{
	{Decision{Deleted, "CleanedUp", GateNone}, func(f KubermaticFacts) bool { return f.Deleting && f.Gone }},
	{Decision{Deleting, "DeletionRequested", GateDeletion}, func(f KubermaticFacts) bool { return f.Deleting }},
	{Decision{Failed, "FailureReported", GateRepair}, func(f KubermaticFacts) bool { return f.Failed }},
	{Decision{Running, "NodeReady", GateNone}, func(f KubermaticFacts) bool { return f.HasNode && f.NodeWasReady }},
	{Decision{Pending, "Held", GateRepair}, func(f KubermaticFacts) bool { return f.Held }},
	{Decision{Joining, "WaitingForNodeToBeReady", GateHealth}, func(f KubermaticFacts) bool { return f.HasNode }},
	{Decision{Joining, "WaitingForNode", GateNode}, func(f KubermaticFacts) bool { return f.HasInstance && f.HasAddresses }},
	{Decision{Provisioning, "WaitingForAddresses", GateInfrastructure}, func(f KubermaticFacts) bool { return f.HasInstance }},
	{Decision{Provisioning, "CreatingInstance", GateInfrastructure}, func(f KubermaticFacts) bool { return f.Valid }},
	{Decision{Validating, "WaitingForValidation", GateValidation}, nil},
}}

// Kubermatic returns the phases of Kubermatic's machine-controller: the six states of its architecture page, which its code does not
// compute, and two more that users need: Failed, which cluster-autoscaler acts on, and Pending. A Running Machine whose Node is no longer
// Ready stays Running: a condition reports that. The table is shared and immutable.
func Kubermatic() *Table[KubermaticFacts] { return &kubermatic }
