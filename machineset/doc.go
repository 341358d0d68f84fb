// Package machineset maintains the desired number of Machines of each set, and creates no second one when answers are lost, caches lag or
// two processes act.
//
//	kinds, err := contract.ClusterAPI(contract.V1Beta2)
//	_, err = machine.SetupWithManager(ctx, mgr, kinds.Machine, machine.Options{})
//	_, err = machineset.SetupWithManager(ctx, mgr, kinds, machineset.Options{})
//
// A set and its Machines interact through objects only: package machine, or another program, reconciles the Machines. Other kinds of sets
// and Machines need a contract.MachineMaker. The CRDs of sets, Machines, templates and cloned objects must be installed before.
//
// A pass is a list of steps ([Steps]). Options.Steps accepts a list with steps of your own, which read and change the [Scope]; [Scope.Hold]
// prevents the set from creating. A pass decides in pure functions (package scale), and never on caches that are too old.
//
// # Guarantees
//
// No process creates a second instance for a Machine, as long as the API server returns the objects that exist; see Limits for exceptions:
//
//   - names are reserved in the set's creation ledger, which is written with the resourceVersion of the set, before objects are created
//     under them, and an object that exists under such a name is judged by its owner, its annotations and its deletion;
//   - before slots are reserved, the API server lists the Machines of the namespace once, their metadata only. A Machine that is missing in
//     the cache prevents the set from creating, and after half a minute the set reports it ([ReasonMachinesNotShown]);
//   - before Machines are deleted, the set's replicas, its Machines and their marks are read from the API server.
//
// A restored or copied set has a ledger of another UID. It creates nothing until it controls or has adopted as many Machines as desired, or
// a person sets [RestoredAnnotation] to its UID ([ReasonMachinesNotRestored]). A set with Machines but without a ledger continues behind
// all slots that can have been reserved.
//
// A Machine whose deletion, adoption or creation is rejected delays no other Machine, and no other is deleted in its place. Objects that
// were created for a Machine that was never created are deleted with the set. Templates and preflight checks that cannot be read only
// prevent a set from creating.
//
// Labels, annotations, limits, readiness gates and taints of the template are copied to existing Machines. The copied values are recorded
// on the Machine (annotation machinist.dev/given), so that values of other writers are retained.
//
// # Remediation
//
// A Machine whose conditions HealthCheckSucceeded and OwnerRemediated are False was marked by a health check: the set deletes it, and
// creates another one, unless the set may not create. The deployment limits how many Machines, and how many available ones, are replaced at
// once (scale.LimitsAnnotation). A Machine that was created after the first replacement is replaced with back-off, from a minute up to a
// day, until a newer Machine was available for an hour. Replacements are recorded in the ledger before the Machine's condition is set and
// the Machine is deleted, so that a stopped process replaces no other one. A Machine that recovers meanwhile is not deleted.
//
// # What differs from Cluster API
//
// A Machine whose labels were changed is released. A set does not write its own spec. Reasons of preflight checks are their names, and the
// version of a topology is ignored. MachinesUpToDate is known for sets of a MachineDeployment, whose reconciler sets the condition UpToDate
// of their Machines. A set counts a Machine that was moved to it when its replicas include the Machine.
//
// # Limits
//
// A process that stops after it wrote the ledger, and continues after another one has created the Machine and it was deleted again, creates
// it a second time: use leader election. The same happens if an API server executes a creation after its answer was lost and its slot was
// abandoned. The loss of the ledger of a set without Machines is not detected. A set of another program has no ledger: restore it paused. A
// pass creates Machines for at most a minute.
package machineset
