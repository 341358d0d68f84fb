package phases

// Phase is the word that a Machine's status shows. Values are wire format.
type Phase string

// Gate is what a Machine waits for before it can leave its phase.
type Gate string

// The gates of a life, in order; GateNone at the end of it. A dialect has only some of them.
const (
	GateNone           Gate = ""
	GateValidation     Gate = "Validation"
	GateBootstrapData  Gate = "BootstrapData"
	GateInfrastructure Gate = "Infrastructure"
	GateNode           Gate = "Node"
	GateHealth         Gate = "Health"
	GateUpdate         Gate = "Update"
	GateRepair         Gate = "Repair" // by a person, or by a controller that replaces broken Machines
	GateDeletion       Gate = "Deletion"
)

// Decision is a phase, why it holds, and what is waited for.
type Decision struct {
	// Phase is never empty in a table made by New.
	Phase Phase
	// Reason is one CamelCase word, for events and logs.
	Reason string
	// Waiting is GateNone when the Machine has arrived.
	Waiting Gate
}

// Facts are what a phase depends on in the dialects of Cluster API.
type Facts struct {
	// Deleting: deletion was asked for.
	Deleting bool
	// BootstrapReady: the bootstrap data exists, or the user gave it.
	BootstrapReady bool
	// InfrastructureReady: the provider has reported the machine as provisioned, at least once.
	InfrastructureReady bool
	// HasProviderID: the Machine knows the provider ID of its machine.
	HasProviderID bool
	// HasNode: a Node was matched.
	HasNode bool
	// Updating: the machine is being updated in place.
	Updating bool
	// Failed: a failure was reported that does not go away by itself. Only the older dialects of Cluster API look at it.
	Failed bool
}
