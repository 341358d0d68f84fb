package phases

// Cluster API's phases. Rule: Machine status.phase in cluster.x-k8s.io/v1beta2.
const (
	Pending      Phase = "Pending"
	Provisioning Phase = "Provisioning"
	Provisioned  Phase = "Provisioned"
	Running      Phase = "Running"
	Updating     Phase = "Updating"
	Deleting     Phase = "Deleting"
	// Deleted is never set by a controller of Cluster API. It is the last phase of Kubermatic.
	Deleted Phase = "Deleted"
	// Failed is not set by Cluster API since v1.11.
	Failed Phase = "Failed"
	// Unknown is never set by Cluster API. Gardener sets it.
	Unknown Phase = "Unknown"
)

func deleting(f Facts) bool { return f.Deleting }

// begun returns the rules for a Machine whose Node has not joined. All dialects but the oldest share them.
func begun() []Rule[Facts] {
	return []Rule[Facts]{
		{Decision{Provisioned, "InfrastructureProvisioned", GateNode}, func(f Facts) bool { return f.HasProviderID }},
		{Decision{Provisioning, "BootstrapDataCreated", GateInfrastructure},
			func(f Facts) bool { return f.BootstrapReady && !f.InfrastructureReady }},
		{Decision{Provisioned, "InfrastructureProvisioned", GateNode}, func(f Facts) bool { return f.InfrastructureReady }},
		{Decision{Pending, "WaitingForBootstrapData", GateBootstrapData}, nil},
	}
}

func deletionRequested() Rule[Facts] {
	return Rule[Facts]{Decision{Deleting, "DeletionRequested", GateDeletion}, deleting}
}

func failureReported() Rule[Facts] {
	return Rule[Facts]{Decision{Failed, "FailureReported", GateRepair}, func(f Facts) bool { return f.Failed }}
}

func nodeJoined() Rule[Facts] {
	return Rule[Facts]{Decision{Running, "NodeJoined", GateNone}, func(f Facts) bool { return f.HasNode && f.InfrastructureReady }}
}

var (
	clusterAPI = Table[Facts]{rules: append([]Rule[Facts]{
		deletionRequested(),
		{Decision{Updating, "UpdatingInPlace", GateUpdate}, func(f Facts) bool { return f.Updating }},
		nodeJoined(),
	}, begun()...)}
	clusterAPIV1Beta1  = Table[Facts]{rules: append([]Rule[Facts]{deletionRequested(), failureReported(), nodeJoined()}, begun()...)}
	clusterAPIV1Alpha3 = Table[Facts]{rules: []Rule[Facts]{
		deletionRequested(), failureReported(), nodeJoined(),
		{Decision{Provisioned, "NodeAppeared", GateInfrastructure}, func(f Facts) bool { return f.HasNode }},
		{Decision{Provisioning, "InfrastructureReady", GateNode}, func(f Facts) bool { return f.InfrastructureReady }},
		{Decision{Provisioning, "BootstrapDataCreated", GateInfrastructure}, func(f Facts) bool { return f.BootstrapReady }},
		{Decision{Pending, "WaitingForBootstrapData", GateBootstrapData}, nil},
	}}
)

// ClusterAPI returns the phases of current Cluster API. The table is shared and immutable.
//
// In Cluster API, later rules override earlier ones and the stored phase (setMachinePhase in its Machine controller, v1.13); this table has
// the same conditions in the opposite order. The two differ only when none of Cluster API's rules applies, so that it retains the stored
// phase. Here such a Machine is Provisioned when its infrastructure was reported as provisioned without a provider ID, and Pending
// otherwise.
func ClusterAPI() *Table[Facts] { return &clusterAPI }

// ClusterAPIV1Beta1 returns the phases of Cluster API up to v1.10, where a reported failure is a phase and an in-place update is none. The
// table is shared and immutable.
func ClusterAPIV1Beta1() *Table[Facts] { return &clusterAPIV1Beta1 }

// ClusterAPIV1Alpha3 returns the phases of Cluster API v0.3, which Cluster API's page on the Machine controller still describes: a Machine
// is Provisioned when its Node appears, and Running when its infrastructure is ready as well. While its infrastructure is ready but its
// Node is missing, it is Provisioning. A Node appears before the infrastructure is ready only if a custom step records the provider ID
// earlier: the standard steps of package machine wait for the infrastructure. The table is shared and immutable.
func ClusterAPIV1Alpha3() *Table[Facts] { return &clusterAPIV1Alpha3 }
