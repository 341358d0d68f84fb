// Package rollout decides how a MachineDeployment replaces Machines: which set grows, which one shrinks, and which Machines are deleted.
//
// [Plan] takes the sets of a deployment with their Machines and returns the next step of one strategy ([Type]): RollingUpdate, OnDelete,
// Recreate, or an update in place. The caller carries the [Decision] out in the order of its fields, observes, and plans again.
//
// # Victims
//
// A set chooses what it deletes by its own cache. A plan therefore contains the Machines to delete when a set shrinks: mark them, with the
// identity of the deployment, before the set's replicas are written ([Change.Victims]), and first remove marks that no plan needs any more
// ([Decision.Unmark]). A Machine in deletion counts as a victim, so that no second one is deleted for the same unit.
//
// # Bounds
//
// Everything here is pure and deterministic. A plan keeps these bounds:
//
//   - it creates no Machine beyond replicas and maxSurge, where those in deletion, reserved and not yet created count too;
//   - it deletes no available Machine when fewer than replicas minus maxUnavailable would stay; OnDelete, Recreate and a plain scale-down
//     ignore availability;
//   - it deletes no healthy Machine without a mark of others while one with such a mark stays;
//   - a frozen set does not grow;
//   - no Machine is deleted for a set that is known to be unable to create. A rejection by the API server is known after the first
//     attempt, when MaxUnavailable Machines, or with Recreate all, are already deleted;
//   - a paused Machine is neither replaced nor updated. A scale-down deletes it after the others.
//
// A user's scaling and failing Nodes can break any of them. A paused set carries out a plan later, as in Kubernetes.
//
// # Updates in place
//
// A plan selects Machines, as many as unavailability allows. An update hook, which is not part of this package, updates a selected Machine
// to the template of the current set. The Machine then moves to that set, whose replicas follow in the next plan ([Moved]), and after that
// those of its former set, which must not create a replacement. An update that is in progress when the template changes is finished first;
// its Machine is then updated again.
//
// # Differences from others
//
// Cluster API assumes that available Machines are deleted first when a set shrinks, and needs to break deadlocks; plans with victims do
// not. Outdated sets never create lost Machines again. A pause does not add the surge, and still shrinks to the desired number while marked
// Machines exist, as after a scale-down by cluster-autoscaler.
package rollout
