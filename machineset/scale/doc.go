// Package scale decides how many Machines a set creates, under which names, and which ones it deletes.
//
// [Plan] compares what was observed with what is wanted. [Order] puts the Machines into the order in which they go. A [Ledger]
// records which names were taken before anything is created under them, so that no crash and no late cache leads to a second
// machine for one slot.
//
// # How no second machine comes about
//
// A set reserves slots ([Ledger.Reserve]), writes the ledger with the resource version that it was read at, and only then creates
// objects under the reserved names, which follow from the set's UID and the slot alone. Whoever repeats the creation asks for
// the same names, and [JudgeMachine] tells an object of one's own from somebody else's. An entry leaves the ledger when its
// Machine was observed ([Ledger.Settle]), and what was observed counts only from a cache that has seen at least
// [Ledger.Through]. Slots and names are never used again. A later pass that finds reserved slots says so first ([Ledger.Resume]),
// because a write with the resource version is what tells an old read from a new one. A ledger names its set ([Ledger.IsOf]). One that
// others have taken away or put back is no longer enough: [Recover] says what becomes of the set, and [Compare] what the API server
// itself says of the Machines that a cache does not show.
//
// # Guarantees
//
// Everything here is pure and deterministic: equal input gives equal output, whatever its order. In one plan a set either
// creates or deletes. It creates nothing while its Machines, those in deletion and those reserved included, are as many as
// wanted; it asks for no deletion that the ones under way already make good; and no unmarked Machine goes while a marked one
// stays. These bounds bind what the set does: a user's scaling and Nodes that die can break any of them by themselves.
//
// # Limits
//
// A creation names no condition on another object. A process that is stopped between the write of the ledger and the creation, and
// goes on when another one has created that Machine and it was deleted to the end, creates it again: bound the time of a pass, and
// elect a leader. Priorities of Gardener are read, its preservation of Machines is not.
package scale
