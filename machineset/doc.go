// Package machineset keeps as many Machines of each set as the set asks for, and creates no second one when answers are lost, caches lag or
// two processes act.
//
//	kinds, err := contract.ClusterAPI(contract.V1Beta2)
//	_, err = machine.SetupWithManager(ctx, mgr, kinds.Machine, machine.Options{})
//	_, err = machineset.SetupWithManager(ctx, mgr, kinds, machineset.Options{})
//
// A set and its Machines interact through objects only: package machine, or another program, reconciles the Machines. Other kinds of sets
// and Machines need a contract.MachineMaker. The CRDs of sets, Machines, templates and what is cloned from them must be installed before.
//
// A pass is a list of steps ([Steps]); Options.Steps takes one with steps of your own, which read and change the [Scope], and [Scope.Hold]
// keeps the set from creating. A pass decides in pure functions (package scale), and nothing on caches that are too old.
//
// # Guarantees
//
// No second instance for a Machine, in every process, as long as the API server returns the objects that exist; Limits has the exceptions:
//
//   - names are reserved in the set's creation ledger, which is written with the resourceVersion of the set, before objects are created
//     under them, and an object that exists under such a name is judged by its owner, its annotations and its deletion;
//   - before slots are reserved, the API server lists the Machines of the namespace once, their metadata only. One that the cache does not
//     show keeps the set from creating, and after half a minute the set says so ([ReasonMachinesNotShown]);
//   - before Machines are deleted, the API server is asked for the replicas of the set, its Machines and their marks.
//
// A restored set, or a copy of one, has a ledger of another UID. It creates nothing until it controls or has adopted as many Machines as it
// wants, or a person sets [RestoredAnnotation] to its UID ([ReasonMachinesNotRestored]). A set that has Machines and no ledger continues
// behind all slots that can have been reserved.
//
// A Machine whose deletion, adoption or creation is rejected delays no other, and no other is deleted in its place. What was created for
// a Machine that was never made goes with the set. Templates and preflight checks that cannot be read keep a set from creating, and from
// nothing else.
//
// Labels, annotations, limits, readiness gates and taints of the template are copied to existing Machines. What a set gave a Machine is
// recorded on it ([GivenAnnotation]), so that values of other writers stay.
//
// # Remediation
//
// A Machine whose conditions HealthCheckSucceeded and OwnerRemediated are False was marked by a health check: the set deletes it, and
// creates another one, unless it creates nothing. How many go at once, and how many available ones, is what its deployment says
// (scale.LimitsAnnotation). One that was made after the first replacement waits, a minute at first, twice as long each time and up to a
// day, until a newer one was available for an hour. What is replaced is recorded in the ledger before a Machine says that
// it is deleted and is: a process that is stopped in between replaces no other one. A Machine that recovers meanwhile stays.
//
// # What differs from Cluster API
//
// A Machine whose labels were changed is released. A set does not write its own spec.
// Reasons of preflight checks are their names, and the version of a topology is not looked at. MachinesUpToDate is known for sets of a
// MachineDeployment, whose reconciler sets the condition UpToDate of their Machines. A set counts a Machine that was moved to it when its
// replicas include it.
//
// # Limits
//
// A process that is stopped after it wrote the ledger, and continues when another one has created the Machine and that was deleted again,
// creates it a second time: use leader election. So does an API server that executes a creation after its answer got lost and its slot was
// abandoned. A lost ledger of a set without Machines leaves no trace. A set of another program has no ledger: restore it paused. A pass
// creates Machines for a minute at most.
package machineset
