package phases

// Phases that only pools of Machines have. Rule: MachinePool status.phase in cluster.x-k8s.io/v1beta2.
const (
	ScalingUp   Phase = "ScalingUp"
	ScalingDown Phase = "ScalingDown"
	// Scaling is the phase of a pool whose size another controller decides, such as a cloud's own autoscaler.
	Scaling Phase = "Scaling"
)

// GateReplicas means that the number of ready Nodes differs from the desired number.
const GateReplicas Gate = "Replicas"

// PoolFacts are what the phase of a pool depends on.
type PoolFacts struct {
	// Deleting: deletion was asked for.
	Deleting bool
	// Failed: the provider reports, now, a failure that does not go away by itself.
	Failed bool
	// BootstrapReady: the bootstrap data exists, or the user gave it.
	BootstrapReady bool
	// InfrastructureReady: the provider has reported the group as provisioned, at least once.
	InfrastructureReady bool
	// HasNode: at least one Node was matched.
	HasNode bool
	// Sized: the desired number of replicas is known.
	Sized bool
	// TooFew and TooMany compare that number with the Nodes that are ready; at most one of them is true.
	TooFew, TooMany bool
	// ManagedElsewhere: another controller manages the number of replicas.
	ManagedElsewhere bool
}

var clusterAPIPool = Table[PoolFacts]{rules: []Rule[PoolFacts]{
	{Decision{Deleting, "DeletionRequested", GateDeletion}, func(f PoolFacts) bool { return f.Deleting }},
	{Decision{Failed, "FailureReported", GateRepair}, func(f PoolFacts) bool { return f.Failed }},
	{Decision{Scaling, "ReplicasManagedElsewhere", GateReplicas}, func(f PoolFacts) bool { return f.mismatch() && f.ManagedElsewhere }},
	{Decision{ScalingUp, "TooFewReadyNodes", GateReplicas}, func(f PoolFacts) bool { return f.mismatch() && f.TooFew }},
	{Decision{ScalingDown, "TooManyReadyNodes", GateReplicas}, func(f PoolFacts) bool { return f.mismatch() }},
	{Decision{Running, "AllNodesReady", GateNone}, func(f PoolFacts) bool { return f.InfrastructureReady && f.Sized }},
	{Decision{Provisioned, "NodeJoined", GateInfrastructure}, func(f PoolFacts) bool { return f.HasNode && !f.InfrastructureReady }},
	{Decision{Provisioned, "InfrastructureProvisioned", GateReplicas}, func(f PoolFacts) bool { return f.InfrastructureReady }},
	{Decision{Provisioning, "BootstrapDataCreated", GateInfrastructure}, func(f PoolFacts) bool { return f.BootstrapReady }},
	{Decision{Pending, "WaitingForBootstrapData", GateBootstrapData}, nil},
}}

func (f PoolFacts) mismatch() bool {
	return f.InfrastructureReady && f.Sized && (f.TooFew || f.TooMany)
}

// MachinePool returns the phases of a pool. The table is shared and immutable.
//
// The words and the order of the questions are those of Cluster API's MachinePool controller (v1.13), which lets later rules
// override earlier ones over the stored phase and so never leaves some phases: a pool whose infrastructure is no longer reported
// as ready, or that was Failed once. Here the phase follows from facts alone. Failed, which Cluster API has not set since v1.11, is a
// pool whose provider reports a failure at this moment, and ends with it.
func MachinePool() *Table[PoolFacts] { return &clusterAPIPool }
