// Package children keeps what an owner of replicas has in common with other such owners, whatever the kind of its children: a MachineSet
// with its Machines, and a MachineDeployment with its MachineSets.
//
// [NewFrame] describes once how the owners of a kind keep children of another kind, on top of the pass.Frame of the owners. [Frame.Index]
// and [Frame.Events] find the children of an owner, and the owner of a child. A [Scope] is one pass over the children of one owner:
//
//  1. [Scope.Observe] reads the children and the creation ledger, and claims children: it adopts those with the labels and without a
//     controller, takes back those of an owner of the same name that was restored from a backup, and releases those that have lost the
//     labels which the owner gave them. A ledger that was lost is rebuilt behind all slots that can have been taken.
//     A child that the API server has stored without what its owner recognizes it by keeps its slot, and holds the owner until
//     a person has mended that, and has deleted the child or given it what it lacks; a child of another Cluster holds it too;
//  2. [Scope.Sync] calls a function for children that are not in step with the owner;
//  3. [Scope.AwaitRestored] holds an owner that was restored before its children, and [Scope.Settle] returns the ledger to decide on;
//  4. [Scope.Grow] asks the API server whether the cache shows all children, before each reservation, reserves slots, writes the ledger on
//     the version of the owner that was read, before anything is created under its names, and creates the children of all reserved slots,
//     or judges what has their names;
//  5. [Scope.Delete] deletes children as they were read, after it has confirmed them with the API server, and [Scope.WriteLedger] writes
//     the ledger before.
//
// What package scale says about the prevention of second instances holds for children of any kind. The rules are pure functions, and a
// [Memory] only saves requests.
//
// [Summary] turns the Machines of a set, or of a deployment, into its conditions and numbers, as Cluster API does.
package children
