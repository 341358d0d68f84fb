package phases

// Phases that only Gardener's machine-controller-manager has. Rule: status.currentStatus.phase in machine.sapcloud.io/v1alpha1.
const (
	CrashLoopBackOff Phase = "CrashLoopBackOff"
	Terminating      Phase = "Terminating"
	InPlaceUpdating  Phase = "InPlaceUpdating"
	// InPlaceUpdateSuccessful is never computed here: after a successful update, the Machine is Running when its Node is healthy.
	InPlaceUpdateSuccessful Phase = "InPlaceUpdateSuccessful"
	InPlaceUpdateFailed     Phase = "InPlaceUpdateFailed"
)

// GardenerFacts are the input of Gardener's dialect.
type GardenerFacts struct {
	// Deleting: deletion was requested.
	Deleting bool
	// HasInstance: the VM exists and is initialized, and the name of its Node is recorded.
	HasInstance bool
	// CreateFailed: the last attempt to create or initialize the VM failed.
	CreateFailed bool
	// Joined: the Node was healthy before.
	Joined bool
	// Healthy: the Node exists and is Ready, and no watched condition reports a problem.
	Healthy bool
	// WasFailed: the Machine was Failed with its current Node.
	WasFailed bool
	// UpdateStarted: the Node was drained for an in-place update that has not succeeded. UpdateFailed: the update has failed.
	UpdateStarted, UpdateFailed bool
}

var gardener = Table[GardenerFacts]{rules: []Rule[GardenerFacts]{
	{Decision{Terminating, "DeletionRequested", GateDeletion}, func(f GardenerFacts) bool { return f.Deleting }},
	{Decision{Running, "NodeHealthy", GateNone}, func(f GardenerFacts) bool { return f.HasInstance && f.Healthy && !f.UpdateStarted }},
	{Decision{InPlaceUpdating, "UpdateStarted", GateUpdate},
		func(f GardenerFacts) bool { return f.HasInstance && f.UpdateStarted && !f.UpdateFailed }},
	{Decision{Failed, "NotHealthySince", GateRepair}, func(f GardenerFacts) bool { return f.HasInstance && f.WasFailed }},
	{Decision{InPlaceUpdateFailed, "UpdateFailed", GateRepair}, func(f GardenerFacts) bool { return f.HasInstance && f.UpdateStarted }},
	{Decision{Unknown, "NodeUnhealthy", GateHealth}, func(f GardenerFacts) bool { return f.HasInstance && f.Joined }},
	{Decision{CrashLoopBackOff, "CreateFailed", GateInfrastructure}, func(f GardenerFacts) bool { return f.CreateFailed && !f.HasInstance }},
	{Decision{Pending, "WaitingForNode", GateNode}, func(f GardenerFacts) bool { return f.HasInstance }},
	{Decision{Pending, "CreatingInstance", GateInfrastructure}, nil},
}}

// Gardener returns the phases of Gardener's machine-controller-manager. Where that controller retains the previous phase, this table uses a
// fact: a Machine that Joined is Unknown and not Pending when its Node is unhealthy, and one that WasFailed is Failed until its Node is
// healthy. A Machine without an instance, which has an empty phase there, is Pending here. The table is shared and immutable.
func Gardener() *Table[GardenerFacts] { return &gardener }
