// Package simulation runs the reconcilers of this library through histories that nothing but a seed decides, in one goroutine and in
// virtual time.
//
//	report, err := simulation.RunSeeds(ctx, simulation.Seeds{Count: 1000, Progress: os.Stderr})
//	for seed := range report.Failed {
//		fmt.Print(simulation.Shrunk(ctx, seed, simulation.Options{}, 300).Table())
//	}
//
// A World has a fake.Store as the API server, a cloud (fake.Driver), kubelets that create Nodes, users, and two managers, each with the
// reconcilers of Machines, MachineSets, MachineDeployments and MachinePools, and with caches that are behind by some events, kind by
// kind. Half of the histories have Pods with a budget: the controllers, scheduler and kubelets of
// fake.Loops act on them, kubelets die, and each manager drains Nodes with a drain runner that has caches of its own. Half of them begin
// when everything runs.
//
// The root of a sixth of the histories is a MachinePool, whose provider is an actor: it names the instances that leave and waits for
// their drain, or does not, lags, repeats, forgets, respells and replaces instances, and scales by itself.
//
// A third of the histories have a MachineHealthCheck with a limit, and instances in up to three zones: the managers then run the
// reconciler of health checks, the freezer of machineset/guard and a gate that holds sets while the API server does not answer. Nodes stop
// being ready one by one or a zone at once, and come back or not; kubelets never start or never report; people change the check, ask for
// remediations, skip Machines and freeze sets. Once the faults stop, unhealthy Machines are replaced, or a person does what a condition
// says.
//
// In another third, sets clone an infrastructure object for each Machine from a template, which changes with a rollout. In half of those,
// a bootstrap object too, and the managers run the steps of package machine as they are: an actor is the providers of both. It makes the
// instance and the Secret, reports them, holds objects with its finalizer, is slow, says that something is there before it says what,
// fails, and writes a status again that was lost; people pause and delete its objects. Once the faults stop, a person deletes the Machines
// that have failed.
//
// In half of the histories sets give their Machines no finalizer, so that the reconciler of Machines adds it. People like to delete what is
// half made, and restore a backup just when Machines go. Half of the histories ask for something once more in the silence: a check has to
// replace the Machine of a Node that fails, or people scale.
//
// Each history has about half of AllFaults. Between any two requests of a pass something else may happen: an event arrives, the other
// manager acts, a person scales, deletes, pauses, rolls out, strips annotations or restores a backup. Requests are lost, refused,
// rewritten, late or carried out without an answer; caches list again, show nothing of one kind for minutes, or leave out the Machines,
// Nodes or MachineSets with a label, until a person widens them; a manager crashes before or after any request and comes back with an empty
// memory; two lead at once; clocks are wrong, and jump by hours.
//
// In a third of the histories the cloud has bad habits: it makes two instances for one token, does not show an instance for a while or
// loses it, leaves out half of what it knows, changes the form of its provider IDs or an ID, is slow, reports a failure that passes, keeps
// what it should delete, says that something is gone that is not, or refuses calls, some or all, with errors of any class. It has one or
// two accounts, whose credentials are wrong for a while or others at each read; calls arrive after their sender has given up, and some
// managers keep to a rate and cache. There, each manager has a guard.Collector for each account, and once everything is silent each
// instance has a Machine, and each running Machine its instance, at which something looks.
//
// The event sources of a Reconciler with AddTo, as the library's have, are those of its own controller: what no event of the cache wakes,
// and no RequeueAfter, is not reconciled.
//
// After each write the Invariants hold, and those of Options. Then the faults stop: everything desired is reached within Bound of virtual
// time, then no reconciler makes a request, and after a deletion nothing is left.
//
// The same seed gives the same history, line by line, on every machine. A broken invariant is a BrokenError with its History; Shrunk finds
// one with fewer faults that breaks the same invariant, and Replayed runs it again from its Choices. Report.Print prints how often each
// fault, each trait of a World, each result of a step and each reason of a condition was seen. What never occurs in "make simulate", also
// of the blocks of pure packages with COVER=file, is listed with the reason in testdata/never.txt; testdata/expected.txt has the
// invariants that are broken until a mechanism has been written again.
//
// # Limits
//
// There are no volumes in the World yet. Infrastructure objects without a provider do nothing. Pools have no Machines
// for their instances. A missing event source is not found where polling has the same effect, as a driver's poll of instances has for
// events of Nodes.
// Health checks ask owners only: there are no remediation templates and no second check. The API server is away for managers alone, whose
// caches see events all the same.
//
// What only a person or another program does, the World does once the faults stop: it repairs a kubelet whose Machine stays, deletes a
// budget that cannot be kept, confirms a restore where a condition asks for that, deletes Machines whose condition says that their instance
// is lost or refused for ever, and instances without a Machine after a restore, and where a Collector cannot be sure. A Node that joins
// while the cache of the manager that ends its Machine has yet to show it is left to the cloud controller manager, as in a real cluster.
package simulation
