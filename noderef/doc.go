// Package noderef decides which Node belongs to which Machine.
//
// A Machine knows the provider ID of its instance, and perhaps the [Ref] of the Node it was matched with before.
// [Rules.Resolve] looks both up and says what they mean together; [Rules.MayTouch] is the last check before a Node is cordoned,
// drained or deleted. [Index] answers lookups among many Nodes; package nodeindex keeps one up to date from an informer.
// [Significant] filters Node events, and [HealthRules] sum up a Node's conditions. What is the same for every pass is data:
// [Rules], HealthRules.
//
// # Usage
//
//	var rules noderef.Rules // equal provider IDs, and nothing else
//	m := rules.Resolve(noderef.Identity{Machine: key, ProviderID: id, Current: recorded}, nodes, claims)
//	switch {
//	case m.Record: // store RefTo(m.Node), and do nothing destructive in this pass
//	case rules.MayTouch(m.Node, recorded, id): // drain it, delete it
//	case m.Outcome == noderef.Claimed: // tell a person about m.Rivals
//	}
//
// # Guarantees
//
//   - Provider IDs are compared as opaque strings, byte by byte. Matching on the last segment, as other systems did, merges
//     instances that are different (kubernetes/autoscaler#3057, kubernetes-sigs/cluster-api#7278, #8485). If you have IDs of one
//     instance in several spellings, set a [Canonical], which is applied to both sides and merges nothing else; that is fuzzed.
//   - An empty ID, and one that names no instance such as "aws://", matches nothing.
//   - Two Nodes with one provider ID are [Ambiguous]; none of them is ever picked.
//   - Two Machines with one provider ID never have one Node: it stays with the one that alone has recorded its UID, else
//     neither has it ([Claimed]). This takes [Claims]; without them every Machine is taken to be the only one.
//   - A Node that was registered again under the same name has another UID. That is reported, and MayTouch refuses it until
//     the new UID was recorded.
//   - Names and addresses match nothing unless a fallback is switched on, and then only under the guards of Rules.Resolve.
//   - Everything here is a pure function of its arguments. Nodes are read, never changed or copied.
//   - Resolve allocates nothing, on a hit or on a miss, with the zero Rules and no rival.
//
// # Limits
//
// Claims are as good as the cache that they are read from. Two Machines that get one provider ID at the same moment, while
// its Node is there already, may both record it before either sees the other; from then on both are Claimed, and neither acts.
// A person then decides, by deleting one of them or by correcting its provider ID.
//
// A Node has no way to prove who it is: a person who controls a kubelet that registers first can give it any provider ID and name.
package noderef
