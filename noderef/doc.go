// Package noderef decides which Node belongs to which Machine.
//
// A Machine has the provider ID of its instance, and perhaps the name and the UID of the Node that was recorded for it. [Rules.Resolve]
// looks up both and returns the result as a [Match]. [Rules.MayTouch] is the last check before a Node is cordoned, drained or deleted.
// [Index] finds Nodes in constant time; cluster.NodeIndex updates an Index from an informer. [Significant] filters Node events.
//
// # Usage
//
//	var rules noderef.Rules // only equal provider IDs match
//	m := rules.Resolve(noderef.Identity{Machine: key, ProviderID: id, Current: recorded}, nodes, claims)
//	switch {
//	case m.Record: // store RefTo(m.Node), and do nothing destructive in this pass
//	case rules.MayTouch(m.Node, recorded, id): // drain it, delete it
//	case m.Outcome == noderef.Claimed: // report m.Rivals in a condition
//	}
//
// # Guarantees
//
//   - Provider IDs are opaque strings that are compared byte by byte. Matching on the last segment, as in other systems, confuses different
//     instances (kubernetes/autoscaler#3057, kubernetes-sigs/cluster-api#7278, #8485). If the IDs of one instance have several forms, set
//     Rules.Canonical, which normalizes both sides.
//   - An empty ID, and one that names no instance such as "aws://", matches nothing.
//   - If two Nodes have one provider ID, the outcome is [Ambiguous] and neither is used. In a deletion they belong to one instance, see
//     [Identity].
//   - Two Machines with one provider ID never share a Node: it belongs to the Machine that alone has recorded its UID, and otherwise to
//     neither ([Claimed]). This requires [Claims]; without them other Machines are not considered.
//   - A Node that registers again under the same name has a new UID. The Match reports it, and MayTouch is false until the new UID is
//     recorded.
//   - Names and addresses never match: they are reused for other instances, and a person who controls a kubelet can give its Node any name.
//   - All functions are pure. Nodes are never changed or copied.
//   - With the zero Rules and no rival, Resolve allocates nothing, whether it finds a Node or not.
//
// # Limits
//
// Claims are as current as the cache that they are read from. If two Machines get the same provider ID at the same moment, and its Node
// already exists, both may record it before either is in the cache of the other. From then on both are Claimed and neither acts, until a
// person deletes one of them or corrects its provider ID.
//
// A Node cannot prove its identity: a person who controls a kubelet that registers first can give it any provider ID and name.
package noderef
