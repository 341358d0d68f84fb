// Package scale decides how many Machines a set creates, under which names, and which ones it deletes.
//
// [Plan] compares the observed Machines with the desired number. [Order] sorts the Machines in the order of deletion. A [Ledger] records
// which names were reserved before objects are created under them, so that no crash and no stale cache causes a second instance for one
// slot.
//
// # How a second instance is prevented
//
// A set lists its Machines once, as the API server itself has them, and waits while its cache does not show all of them. It reserves slots
// ([Ledger.Reserve]), writes the ledger with the resource version that it was read at, and only then creates objects under the reserved
// names, which depend on the set's UID and the slot only. A repeated creation uses the same names, and the controller and the stamp
// ([IsPartOf]) distinguish the set's own object from another one. An entry leaves the ledger when its Machine was created or observed
// ([Ledger.Settle]). A later pass that finds reserved slots first confirms that this ledger is still the stored one.
//
// Between the list and the write of the ledger no other process can have reserved a slot, because the write would fail. Each Machine whose
// slot has left the ledger was created before, and so is in the list. A ledger names its set ([Ledger.IsOf]): one of another set is that
// of a restored, moved or copied one, which waits for its Machines. A lost ledger is [Rebuilt] behind all slots.
//
// # Remediation
//
// [Remediate] decides which of the Machines that a health check has marked are deleted, for another one to be created in their place.
// [Replacements] in the ledger record them, and how often new Machines were replaced, which is done more and more rarely;
// [RemediationLimits] say what a deployment allows. Sets and pools share these decisions.
//
// # Overshoot
//
// [Overshoot] freezes a set that has far more Machines than it wants, and thaws it when they are gone. [FollowFreeze] does the same for a
// deployment: it is frozen while one of its sets is. A frozen set creates nothing; it still deletes its surplus. The limits are Gardener's
// (--safety-up, --safety-down); what it gets wrong there is different here:
//
//   - each set is evaluated alone: an unreadable surge or a failed write at one delays no other;
//   - a scale-down is no overshoot. When fewer Machines are wanted than before, the limit ([FreezeFacts.Mark]) falls with the number of
//     Machines, not with the replicas, and Machines in deletion count only beyond the desired number. So only creations reach the limit;
//   - a thaw by hand lasts: what a person has accepted counts as wanted;
//   - a person's freeze is never ended by a number ([Freezing]).
//
// # Guarantees
//
// Everything here is pure and deterministic: equal input gives equal output, whatever its order. In one plan a set either creates or
// deletes. It creates nothing while its Machines, those in deletion and those reserved included, are as many as desired; it requests no
// deletion when those in progress are enough; and it deletes no unmarked Machine while a marked one remains. These bounds apply to what
// the set does: a user's scaling and failing Nodes can break any of them.
//
// # Limits
//
// The creation of an object cannot depend on another object. A process that is stopped between the write of the ledger and the creation,
// and that continues after another process has created the Machine and the Machine is gone again, creates it a second time: limit the time
// of a pass, and use leader election. Priorities of Gardener are read, its preservation of Machines is not.
package scale
