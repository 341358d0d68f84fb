// Package scale decides how many Machines a set creates, under which names, and which ones it deletes.
//
// [Plan] compares the observed Machines with the desired number. [Order] sorts the Machines in the order of deletion. A [Ledger] records
// which names were reserved before objects are created under them, so that no crash and no stale cache causes a second instance for one
// slot.
//
// # How a second instance is prevented
//
// A set reserves slots ([Ledger.Reserve]), writes the ledger with the resource version that it was read at, and only then creates objects
// under the reserved names, which depend on the set's UID and the slot only. A repeated creation uses the same names, and [IsMachineOf]
// distinguishes the set's own object from another one. An entry leaves the ledger when its Machine was observed ([Ledger.Settle]), and an
// observation counts only from a cache that has seen at least [Ledger.Through]. Slots and names are never reused. A later pass that finds
// reserved slots records that first ([Ledger.Resume]), because a write with the resource version detects a stale read. A ledger names its
// set ([Ledger.IsOf]). A ledger that others have removed or restored is not enough: [Recover] decides what the set does, and [Compare]
// uses what the API server returns about Machines that a cache does not show.
//
// # Remediation
//
// [Remediate] decides which of the Machines that a health check has marked are deleted, for another one to be created in their place.
// [Replacements] record them, and how often new Machines were replaced, which is done more and more rarely; [RemediationLimits] say what a
// deployment allows. Sets and pools share these decisions.
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
