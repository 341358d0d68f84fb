// Package propagate applies an owner's labels, annotations and taints to its Node with one JSON Patch.
//
// A [Policy] defines what an owner propagates and where the Node records it; [ClusterAPI] is Cluster API's. [Policy.Diff] compares what a
// Machine, a pool or any other owner wants ([Desired]) with its Node, and returns a [Patch] if something must change. The caller sends the
// patch (types.JSONPatchType); this package makes no request.
//
// # Usage
//
//	policy := propagate.ClusterAPI()
//	if patch, changed := policy.Diff(node, desired); changed {
//	  err := client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch.JSON()))
//	  // propagate.Rejected(err): read the Node and call Diff again
//	}
//
// Annotations of the Node record what was propagated, those of Cluster API or others ([Ledger]), so that the controller of a fleet can be
// replaced in either direction.
//
// # Guarantees
//
//   - A key or taint that is no longer wanted is removed only if it was recorded. A wanted key or taint is recorded even if the Node had it
//     before; Cluster API v1.13 forgets such labels and annotations.
//   - Keys and taints of other writers are neither changed nor removed, even if they are written at the same time.
//   - If nothing has to change, there is no patch. Otherwise there is one patch, and afterwards nothing has to change.
//   - A Node of Cluster API can be taken over without a write.
//   - Equal input gives a byte-equal patch. Inputs are neither changed nor retained.
//
// # Tests in a patch
//
// A patch has no resourceVersion, so a heartbeat causes no conflict. It tests only what the decision depends on, because every test may
// fail, and when many Nodes join at once, kubelets and the node lifecycle controller write to each of them:
//
//   - the Node's UID, always;
//   - the old content of the ledger if it changes, because it determines what may be removed;
//   - key and effect of a taint at the index where one is changed or removed. Taints are a list without keys, so the index is the only
//     address. Kubernetes' controllers append taints, preserve the order, and fail if the Node changed, so only the removal of a taint at a
//     lower index causes a rejection;
//   - that labels, annotations or taints do not exist, if the patch creates the whole map or list. Kubelets register Nodes with labels and
//     annotations; the first patch of a Node that was created without them is likely to be rejected.
//
// A patch does not test values that the owner overrides anyway, since a second patch would be the same. It does not test that a taint which
// it adds is still missing: the API server rejects the later one of two duplicates.
//
// # Limits
//
// After a rejected patch ([Rejected]), read the Node and call Diff again. A kubelet may write the annotations of its own Node, so a person
// who controls a kubelet can have a label of that Node removed by listing it in the ledger; wanted labels are added again. Values are not
// validated; the API server does that.
//
// A taint for new Nodes ([OnInitialization]) is not added to a Node that has any of the ledger's annotations. Cluster API checks only the
// annotation of the taints, so it adds the taint once more to Nodes that it set up before it propagated taints.
//
// Server-side apply is not used: it failed for Nodes with duplicate addresses on servers before 1.29 (kubernetes-sigs/cluster-api#8417),
// and taints are an atomic list.
package propagate
