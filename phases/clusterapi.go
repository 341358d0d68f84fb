package phases

var clusterAPI = Table{rules: []Rule{
	{Decision{Deleting, "DeletionRequested", GateDeletion}, func(f Facts) bool { return f.Deleting }},
	{Decision{Running, "NodeJoined", GateNone}, func(f Facts) bool { return f.HasNode && f.InfrastructureReady }},
	{Decision{Provisioned, "InfrastructureProvisioned", GateNode}, func(f Facts) bool { return f.HasProviderID }},
	{Decision{Provisioning, "BootstrapDataCreated", GateInfrastructure}, func(f Facts) bool {
		return f.BootstrapReady && !f.InfrastructureReady
	}},
	{Decision{Provisioned, "InfrastructureProvisioned", GateNode}, func(f Facts) bool { return f.InfrastructureReady }},
	{Decision{Pending, "WaitingForBootstrapData", GateBootstrapData}, nil},
}}

// ClusterAPI returns Cluster API's phases. The table is shared and immutable.
//
// Cluster API computes them by letting later rules override earlier ones over the stored phase (setMachinePhase in its
// Machine controller, v1.13); this table asks the same questions in the opposite order. The two differ only where none of
// Cluster API's rules holds and it keeps the stored phase. Here such a Machine is Provisioned when its infrastructure was
// reported as provisioned without a provider ID, and Pending otherwise. Cluster API's Updating, of its in-place updates, is
// not part of the table; Failed and Deleted are not set by current versions.
func ClusterAPI() *Table { return &clusterAPI }

// Compute returns the phase in Cluster API's dialect. It allocates nothing and is safe for concurrent use.
func Compute(f Facts) Decision { return clusterAPI.Compute(f) }
