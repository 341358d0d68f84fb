// Package noderef decides which Node belongs to which Machine.
//
// A Machine knows the provider ID of its instance, and perhaps the [Ref] of the Node it was matched with before. [Resolve]
// looks both up and says what they mean together. [MayTouch] is the last check before a Node is cordoned, drained or
// deleted. [Index] answers lookups among many Nodes; package nodeindex keeps one up to date from an informer.
//
// # Guarantees
//
//   - Provider IDs are compared as opaque strings, byte by byte. Matching on the last segment, as other systems did, merges
//     instances that are different (kubernetes/autoscaler#3057, kubernetes-sigs/cluster-api#7278, #8485).
//   - An empty ID, and one that names no instance such as "aws://", matches nothing.
//   - Two Nodes with one provider ID are [Ambiguous]; none of them is ever picked.
//   - A Node that was registered again under the same name has another UID. That is reported, and [MayTouch] refuses it until
//     the new UID was recorded.
//   - Everything here is a pure function of its arguments. Nodes are read, never changed or copied.
//   - [Resolve] allocates nothing, on a hit or on a miss.
//
// # Limits
//
// Only the provider ID is a key. Canonical forms of provider IDs, fallbacks by name or address, and claims of several
// Machines on one Node are left to the caller.
package noderef
