// Package propagate brings an owner's labels, annotations and taints to its Node with one JSON Patch.
//
// A [Policy] says what an owner hands down and how a Node remembers it; [ClusterAPI] is Cluster API's. [Policy.Diff] compares
// what a Machine, a pool or any other owner says ([Desired]) with its Node, and returns a [Patch] when something has to change.
// The caller sends the patch (types.JSONPatchType); nothing here talks to an API server. [Policy.Concerns] filters events.
//
// # Usage
//
//	policy := propagate.ClusterAPI()
//	if patch, changed := policy.Diff(node, desired); changed {
//		err := client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch.JSON()))
//		// propagate.Rejected(err): read the Node again, and decide again
//	}
//
// What was handed down is remembered on the Node, in Cluster API's own annotations or in those of another system ([Ledger]),
// so that a fleet can change hands in either direction. Other systems are data: the package's tests write down Kubermatic's
// rules and those of Gardener's machine-controller-manager.
//
// # Guarantees
//
//   - What is no longer wanted is removed when it was remembered, and only then. A wanted key or taint is remembered also when
//     the Node had it before; Cluster API v1.13 forgets labels and annotations of that kind.
//   - Keys and taints of others are neither changed nor removed, also when they are written at the same time.
//   - Nothing to do means no patch and no allocation (a ledger with values is decoded). Otherwise there is one patch, after
//     which there is nothing to do.
//   - A Node that Cluster API has written to needs no write to be taken over.
//   - Equal input gives a byte-equal patch. Inputs are read, never changed or kept.
//
// # What a patch tests
//
// A patch carries no resourceVersion, so a heartbeat is no conflict. It tests what the decision rests on and nothing else,
// because every test is a chance to be refused, and a burst of joining Nodes has kubelets, the node lifecycle and the time to
// live controller write to each of them:
//
//   - the Node's UID, always;
//   - the ledger's old content, wherever it changes: it says what may be removed;
//   - that a key is missing, if it is only given to Nodes that lack it ([Selection.OnlyMissing]);
//   - key and effect of a taint at the place where one is changed or removed. Taints are a list without keys, so a place is
//     all there is to go by; Kubernetes' controllers add at the end and keep the order, and refuse their own writes when the
//     Node changed, so only the removal of a taint in front causes a rejection;
//   - that labels, annotations or taints do not exist, where they have to be created as a whole. Kubelets register Nodes with
//     labels and annotations; a Node made without them is likely to have its first patch refused.
//
// Not tested are values that the owner wins over anyway, since a second patch would be the same, and that a taint which is
// added is still missing: of two that are the same the API server refuses the later one.
//
// # Limits
//
// A rejected patch ([Rejected]) is decided again from a fresh read. A kubelet may write its own Node's annotations, so a person who
// controls a kubelet can have a label of that Node removed by listing it as remembered; wanted labels come back. Values are not
// validated; the API server does that. A ledger that cannot be read counts as empty: nothing is removed, and it is written anew.
//
// A taint for new Nodes ([OnInitialization]) is not given to a Node that has any of the ledger's annotations. Cluster API looks
// at that of the taints alone, and so gives it once more to Nodes that it set up before it propagated taints.
//
// Server-side apply is not used: a Node with duplicate addresses made it fail on servers before 1.29
// (kubernetes-sigs/cluster-api#8417), and taints are an atomic list.
package propagate
