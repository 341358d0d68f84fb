// Package scale decides how many Machines a set creates, under which names, and which ones it deletes.
//
// [Plan] compares the observed Machines with the desired number. [Order] sorts the Machines in the order of deletion. A [Ledger] records
// the reserved names before objects are created under them, so that no crash and no stale cache causes a second instance for one slot.
//
// # How a second instance is prevented
//
// A set lists its Machines from the API server once, and waits while its cache does not have all of them. It reserves slots
// ([Ledger.Reserve]), writes the ledger with the resource version that it was read at, and only then creates objects under the reserved
// names, which depend only on the set's UID and the slot. A repeated creation uses the same names, and the controller and the stamp
// ([IsPartOf]) distinguish the set's own object from another one. An entry is removed from the ledger when its Machine was created or
// observed ([Ledger.Settle]). A later pass that finds reserved slots first confirms that this ledger is still the stored one.
//
// Between the list and the write of the ledger no other process can have reserved a slot, because the write would fail. Each Machine whose
// slot was removed from the ledger was created before, and so is in the list. A ledger has the UID of its set ([Ledger.IsOf]): the ledger
// of another set means a restored, moved or copied set, which waits for its Machines. A lost ledger is [Rebuilt] behind all slots.
//
// # Remediation
//
// [Remediate] decides which Machines that a health check has marked are deleted, so that others are created in their place. [Replacements]
// in the ledger record them, and how often new Machines were replaced, which has a back-off; [RemediationLimits] are the limits of a
// deployment. Sets and pools share these decisions.
//
// # Overshoot
//
// [Overshoot] freezes a set with far more Machines than desired, and thaws it when they are gone. [FollowFreeze] freezes a deployment while
// one of its sets is frozen. A frozen set creates nothing; it still deletes its surplus. The limits are Gardener's (--safety-up,
// --safety-down), with these differences:
//
//   - each set is evaluated alone: an invalid surge or a failed write of one set delays no other;
//   - a scale-down is not an overshoot. If fewer Machines are desired than before, the limit ([FreezeFacts.Mark]) falls with the number of
//     Machines, not with the replicas, and Machines in deletion count only beyond the desired number. So only creations reach the limit;
//   - a manual thaw lasts: Machines that a person has accepted count as desired;
//   - a number of Machines never ends a person's freeze ([Freezing]).
//
// # Guarantees
//
// Everything here is pure and deterministic: equal input gives equal output, whatever its order. In one plan a set either creates or
// deletes. It creates nothing while its Machines, including those in deletion and reserved ones, are as many as desired; it requests no
// deletion when those in progress are enough; and it deletes no unmarked Machine while a marked one remains. These bounds apply to the
// set's own actions: a user's scaling and failing Nodes can break any of them.
//
// # Limits
//
// The creation of an object cannot depend on another object. A process that stops between the write of the ledger and the creation, and
// continues after another process has created the Machine and the Machine is gone again, creates it a second time: limit the time of a
// pass, and use leader election. Gardener's priorities are supported, its preservation of Machines is not.
package scale
