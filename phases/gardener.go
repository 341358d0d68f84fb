package phases

// Phases of Gardener's machine-controller-manager that others do not have. Rule: status.currentStatus.phase in
// machine.sapcloud.io/v1alpha1.
const (
	Available               Phase = "Available"
	CrashLoopBackOff        Phase = "CrashLoopBackOff"
	Terminating             Phase = "Terminating"
	InPlaceUpdating         Phase = "InPlaceUpdating"
	InPlaceUpdateSuccessful Phase = "InPlaceUpdateSuccessful"
	InPlaceUpdateFailed     Phase = "InPlaceUpdateFailed"
)

// GardenerFacts are what a phase depends on in Gardener's dialect.
type GardenerFacts struct {
	// Deleting: deletion was asked for.
	Deleting bool
	// NoTarget: there is no cluster that Nodes would join.
	NoTarget bool
	// HasInstance: the VM exists and was initialised, and its Node's name is recorded.
	HasInstance bool
	// CreateFailed: the last attempt to create or initialise the VM failed.
	CreateFailed bool
	// CreationTimedOut: the VM's Node has not joined within the creation timeout.
	CreationTimedOut bool
	// StaleNode: a Node with the name of the new VM existed before it, so the VM cannot be used.
	StaleNode bool
	// Joined: the Node was healthy before.
	Joined bool
	// Healthy: the Node exists, is Ready, and none of the watched conditions is wrong.
	Healthy bool
	// Blocked: the Node still has the taint that tells that critical components are not ready.
	Blocked bool
	// HealthTimedOut: the Node has not been healthy for the health timeout, and the budget allows to replace it.
	HealthTimedOut bool
	// WasFailed: the Machine was Failed with the Node that it has.
	WasFailed bool
	// UpdateStarted: the Node was drained for an update in place, and has not been healthy since; UpdateSucceeded and UpdateFailed
	// are how the update ended, a timeout included.
	UpdateStarted, UpdateSucceeded, UpdateFailed bool
}

func (f GardenerFacts) updating() bool {
	return f.UpdateStarted && !f.UpdateSucceeded && !f.UpdateFailed
}

var gardener = Table[GardenerFacts]{rules: []Rule[GardenerFacts]{
	{Decision{Terminating, "DeletionRequested", GateDeletion}, func(f GardenerFacts) bool { return f.Deleting }},
	{Decision{Available, "InstanceCreated", GateNone}, func(f GardenerFacts) bool { return f.NoTarget && f.HasInstance }},
	{Decision{Failed, "NodeNameTaken", GateRepair}, func(f GardenerFacts) bool { return f.StaleNode }},
	{Decision{Running, "NodeHealthy", GateNone}, func(f GardenerFacts) bool {
		return f.HasInstance && f.Healthy && (f.Joined || f.WasFailed || !f.Blocked) && (!f.UpdateStarted || f.UpdateSucceeded)
	}},
	{Decision{InPlaceUpdating, "UpdateStarted", GateUpdate}, func(f GardenerFacts) bool { return f.HasInstance && f.updating() }},
	{Decision{Failed, "HealthTimeout", GateRepair}, func(f GardenerFacts) bool {
		return f.HasInstance && (f.Joined || f.WasFailed) && f.HealthTimedOut
	}},
	{Decision{Failed, "NotHealthySince", GateRepair}, func(f GardenerFacts) bool { return f.HasInstance && f.WasFailed }},
	{Decision{InPlaceUpdateFailed, "UpdateFailed", GateRepair},
		func(f GardenerFacts) bool { return f.HasInstance && f.UpdateStarted && f.UpdateFailed }},
	{Decision{InPlaceUpdateSuccessful, "UpdateSucceeded", GateHealth}, func(f GardenerFacts) bool { return f.HasInstance && f.UpdateStarted }},
	{Decision{Unknown, "NodeUnhealthy", GateHealth}, func(f GardenerFacts) bool { return f.HasInstance && f.Joined }},
	{Decision{Failed, "CreationTimeout", GateRepair}, func(f GardenerFacts) bool { return f.CreationTimedOut }},
	{Decision{CrashLoopBackOff, "CreateFailed", GateInfrastructure}, func(f GardenerFacts) bool { return f.CreateFailed && !f.HasInstance }},
	{Decision{Pending, "WaitingForCriticalComponents", GateHealth}, func(f GardenerFacts) bool { return f.HasInstance && f.Healthy }},
	{Decision{Pending, "WaitingForNode", GateNode}, func(f GardenerFacts) bool { return f.HasInstance }},
	{Decision{Pending, "CreatingInstance", GateInfrastructure}, nil},
}}

// Gardener returns the phases of Gardener's machine-controller-manager. Where that one keeps the phase of before, a fact says what
// happened before: a Machine that Joined is Unknown and not Pending when its Node is unhealthy, and Running again without
// asking for the taint; one that WasFailed is Failed until its Node is healthy. A Machine without an instance, which it shows as the
// empty phase, is Pending here. The table is shared and immutable.
func Gardener() *Table[GardenerFacts] { return &gardener }

// GardenerLife is the life of a Machine of Gardener's, with a target cluster.
func GardenerLife() Life[GardenerFacts] {
	type facts = GardenerFacts
	is := func(more func(facts) bool) func(facts) bool {
		return func(f facts) bool { return !f.Deleting && !f.HealthTimedOut && !f.CreationTimedOut && more(f) }
	}
	steady := func(f facts) bool { return f.HasInstance && f.Joined && !f.updating() && !f.UpdateFailed }
	return Life[facts]{
		Events: []Event[facts]{
			{"VM created", func(f *facts) { f.HasInstance, f.CreateFailed = true, false }, is(func(f facts) bool { return !f.HasInstance })},
			{"creation failed", func(f *facts) { f.CreateFailed = true }, is(func(f facts) bool { return !f.HasInstance })},
			{"creation timeout", func(f *facts) { f.CreationTimedOut = true }, is(func(f facts) bool { return !f.Joined })},
			{"Node healthy", func(f *facts) { f.Healthy, f.Joined, f.UpdateStarted, f.UpdateSucceeded = true, true, false, false },
				is(func(f facts) bool { return f.HasInstance && !f.Healthy && (!f.UpdateStarted || f.UpdateSucceeded) })},
			{"Node unhealthy or gone", func(f *facts) { f.Healthy = false }, is(steady)},
			{"health timeout", func(f *facts) { f.HealthTimedOut = true },
				is(func(f facts) bool { return f.Joined && !f.Healthy && !f.updating() })},
			{"update started", func(f *facts) { f.UpdateStarted, f.UpdateSucceeded, f.Healthy = true, false, false },
				is(func(f facts) bool { return steady(f) && f.Healthy })},
			{"update succeeded", func(f *facts) { f.UpdateSucceeded = true }, is(facts.updating)},
			{"update failed", func(f *facts) { f.UpdateFailed = true }, is(facts.updating)},
			{"deletion requested", func(f *facts) { f.Deleting = true }, func(f facts) bool { return !f.Deleting }},
		},
		Over: func(f facts) bool { return f.Deleting }, End: "finalizer removed",
	}
}
