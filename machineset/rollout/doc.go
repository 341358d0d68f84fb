// Package rollout decides how a MachineDeployment replaces Machines: which set grows, which one shrinks, and which Machines go.
//
// [Plan] takes the sets of a deployment with their Machines and returns the next step of one strategy ([Type]): RollingUpdate, OnDelete,
// Recreate, or an update in place. The caller carries the [Decision] out in the order of its fields, observes, and plans again.
//
// # Victims
//
// A set chooses what it deletes by its own cache. A plan therefore names the Machines that go when a set shrinks: mark them, with the
// identity of the deployment, before the set's replicas are written ([Change.Victims]), and take marks away first that no plan needs any
// more ([Decision.Unmark]). A Machine in deletion counts as a victim, so that no second one goes for the same unit.
//
// # Bounds
//
// Everything here is pure and deterministic. A plan keeps these bounds:
//
//   - it creates no Machine beyond replicas and maxSurge, where those in deletion, reserved and not yet created count too;
//   - it deletes no available Machine when fewer than replicas minus maxUnavailable would stay; OnDelete, Recreate and a plain scale-down
//     do not look at availability;
//   - it deletes no healthy Machine without a mark of others while one with such a mark stays;
//   - a frozen set does not grow;
//   - no Machine goes for a set that cannot create, as far as that is known: what the API server refuses is known after the first
//     attempt, by which MaxUnavailable Machines, or with Recreate all, are gone;
//   - a paused Machine is neither replaced nor updated. It goes with a scale-down, after the others.
//
// A user's scaling and failing Nodes can break any of them. A set that is paused carries a plan out later, as it does in Kubernetes.
//
// # Updates in place
//
// A plan selects Machines, as many as unavailability allows. An update hook, which is not part of this package, brings a selected Machine
// to the template of the current set. The Machine then moves to that set, whose replicas follow in the next plan ([Moved]), and those of
// the set that it came from, which must not create in its place, after that. An update that is under way when the template changes ends
// first; its Machine is then updated again.
//
// # Differences from others
//
// Cluster API assumes that available Machines go first when a set shrinks, and needs a breaker of deadlocks: plans that name victims do
// not. Outdated sets never create again what they have lost. A pause does not add the surge, and shrinks also to the desired number while
// marked Machines exist, as after a scale-down by cluster-autoscaler.
package rollout
