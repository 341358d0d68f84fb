package contract

// MachinePoolState is everything that a decision about a MachinePool may need, whatever shape the object has. Strings, maps
// and slices are read-only views.
type MachinePoolState struct {
	Metadata
	ReplicatedState

	// ProviderIDs are those of the instances of the pool, in the order in which the provider lists them. There may be 10,000.
	ProviderIDs []string

	Phase string
	// Nodes are those that were matched; the UID is empty when the writer of the list did not know it. There may be 10,000.
	Nodes                               []NodeRef
	BootstrapReady, InfrastructureReady Opt[bool]
	// UnavailableReplicas counts by Nodes, like NodeAvailableReplicas. Cluster API has deprecated it.
	UnavailableReplicas Opt[int32]
	// FailureReason and FailureMessage are a failure that does not go away by itself. Cluster API has deprecated both.
	FailureReason, FailureMessage string
}

// MachinePoolUpdate is what a pass wants to change. The zero update changes nothing. Where MachinePoolState has no Opt, zero
// and absent are the same to every reader, and setting the zero value removes the field.
type MachinePoolUpdate struct {
	MetadataUpdate
	ReplicatedUpdate

	// ProviderIDs replace the list.
	ProviderIDs Change[[]string]
	// DataSecretName is the one of the template; the empty name is a value of its own.
	DataSecretName Change[string]

	Phase Change[string]
	// Nodes replace the list.
	Nodes                               Change[[]NodeRef]
	BootstrapReady, InfrastructureReady Change[bool]
	UnavailableReplicas                 Change[int32]
	FailureReason, FailureMessage       Change[string]
}

// MachinePoolKind is a kind of MachinePool and how to read it.
type MachinePoolKind = KindOf[MachinePoolState, MachinePoolUpdate]
