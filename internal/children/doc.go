// Package children is the common part of all owners of replicas, whatever the kind of their children: a MachineSet with its Machines, and a
// MachineDeployment with its MachineSets.
//
// [NewFrame] describes once how the owners of a kind manage children of another kind, on top of the engine.Frame of the owners.
// [Frame.Index] and [Frame.Watch] map an owner to its children, and a child to its owner. A [Scope] is one pass over the children of one
// owner:
//
//  1. [Scope.Observe] reads the children and the creation ledger, and claims children: it adopts those with the labels and without a
//     controller, takes back those of an owner of the same name that was restored from a backup, and releases those that have lost the
//     labels which the owner gave them. A lost ledger is rebuilt behind all slots that can have been reserved.
//     A child that the API server has stored without the values by which its owner recognizes it retains its slot, and holds the owner
//     until a person has fixed the cause, and has deleted or corrected the child; a child of another Cluster holds it too;
//  2. [Scope.Sync] calls a function for children that are not in step with the owner;
//  3. [Scope.AwaitRestored] holds an owner that was restored before its children, and [Scope.Settle] returns the ledger to decide on;
//  4. [Scope.Grow] confirms with the API server that the cache has all children before each reservation, reserves slots, writes the ledger
//     on the version of the owner that was read before anything is created under its names, and creates the children of all reserved
//     slots, or judges existing objects with their names;
//  5. [Scope.Delete] deletes children in the versions that were read, after the API server has confirmed them; [Scope.WriteLedger] writes
//     the ledger before.
//
// Package scale's prevention of second instances holds for children of any kind. The rules are pure functions, and a [Memory] only saves
// requests.
//
// [Summary] computes the conditions and numbers of a set or deployment from its Machines, as Cluster API does.
package children
