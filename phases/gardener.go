package phases

// Phases of Gardener's machine-controller-manager that others do not have. Rule: status.currentStatus.phase in
// machine.sapcloud.io/v1alpha1.
const (
	CrashLoopBackOff Phase = "CrashLoopBackOff"
	Terminating      Phase = "Terminating"
	InPlaceUpdating  Phase = "InPlaceUpdating"
	// InPlaceUpdateSuccessful is never computed here: the end of an update that succeeded is a healthy Node.
	InPlaceUpdateSuccessful Phase = "InPlaceUpdateSuccessful"
	InPlaceUpdateFailed     Phase = "InPlaceUpdateFailed"
)

// GardenerFacts are what a phase depends on in Gardener's dialect.
type GardenerFacts struct {
	// Deleting: deletion was asked for.
	Deleting bool
	// HasInstance: the VM exists and was initialised, and its Node's name is recorded.
	HasInstance bool
	// CreateFailed: the last attempt to create or initialise the VM failed.
	CreateFailed bool
	// Joined: the Node was healthy before.
	Joined bool
	// Healthy: the Node exists, is Ready, and none of the watched conditions is wrong.
	Healthy bool
	// WasFailed: the Machine was Failed with the Node that it has.
	WasFailed bool
	// UpdateStarted: the Node was drained for an update in place that has not ended well; UpdateFailed: it failed.
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

// Gardener returns the phases of Gardener's machine-controller-manager. Where that one keeps the phase of before, a fact says what
// happened before: a Machine that Joined is Unknown and not Pending when its Node is unhealthy, and one that WasFailed is Failed until its
// Node is healthy. A Machine without an instance, which it shows as the empty phase, is Pending here. The table is shared and immutable.
func Gardener() *Table[GardenerFacts] { return &gardener }
