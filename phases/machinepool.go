package phases

// Phases that only MachinePools have. Rule: MachinePool status.phase in cluster.x-k8s.io/v1beta2.
const (
	ScalingUp   Phase = "ScalingUp"
	ScalingDown Phase = "ScalingDown"
	// Scaling is the phase of a pool whose size another controller sets, such as a cloud's autoscaler.
	Scaling Phase = "Scaling"
)

// GateReplicas means that the number of ready Nodes differs from the desired number.
const GateReplicas Gate = "Replicas"

// PoolFacts are the input for the phase of a pool.
type PoolFacts struct {
	// Deleting: deletion was requested.
	Deleting bool
	// Failed: the provider currently reports a permanent failure.
	Failed bool
	// BootstrapReady: the bootstrap data exists, or the user provided it.
	BootstrapReady bool
	// InfrastructureReady: the provider has reported the group as provisioned, at least once.
	InfrastructureReady bool
	// HasNode: at least one Node was matched.
	HasNode bool
	// Sized: the desired number of replicas is known.
	Sized bool
	// TooFew and TooMany: there are fewer, or more, ready Nodes than desired replicas. At most one is true.
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
// The phases and their order are those of Cluster API's MachinePool controller (v1.13). There, later rules override earlier ones and the
// stored phase, so that some phases never end: that of a pool whose infrastructure is no longer reported as ready, and Failed. Here the
// phase depends on facts only. Failed, which Cluster API has not set since v1.11, applies while the provider reports a failure.
func MachinePool() *Table[PoolFacts] { return &clusterAPIPool }
