package phases

// Phase is the phase in the status of a Machine. Its values are part of the API.
type Phase string

// Gate is what a Machine waits for before it can leave its phase.
type Gate string

// Gates, in the order of a Machine's life; GateNone is last. A dialect uses only some of them.
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

// Decision is a phase, its reason, and what the Machine waits for.
type Decision struct {
	// Phase is never empty in a table made by New.
	Phase Phase
	// Reason is one CamelCase word, for events and logs.
	Reason string
	// Waiting is GateNone when the Machine waits for nothing.
	Waiting Gate
}

// Facts are the input of the dialects of Cluster API.
type Facts struct {
	// Deleting: deletion was requested.
	Deleting bool
	// BootstrapReady: the bootstrap data exists, or the user provided it.
	BootstrapReady bool
	// InfrastructureReady: the provider has reported the machine as provisioned, at least once.
	InfrastructureReady bool
	// HasProviderID: the Machine has the provider ID of its machine.
	HasProviderID bool
	// HasNode: a Node was matched.
	HasNode bool
	// Updating: the machine is being updated in place.
	Updating bool
	// Failed: a permanent failure was reported. Only the older dialects of Cluster API use it.
	Failed bool
}
