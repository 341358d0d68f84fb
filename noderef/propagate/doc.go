// Package propagate brings a Machine's labels and annotations to its Node with one JSON Patch.
//
// A [Policy] selects what a Machine hands down. [Diff] compares that with a Node and returns a [Patch] when something has to
// change. The caller sends the patch (types.JSONPatchType); nothing here talks to an API server. Machines, pools and every
// other owner of Nodes use the same functions.
//
// Keys that were set are remembered on the Node in Cluster API's own annotations, [LabelsFromMachineAnnotation] and
// [AnnotationsFromMachineAnnotation], so that a fleet can change hands in either direction.
//
// # Guarantees
//
//   - A key that is no longer wanted is removed when it was remembered, and only then. A wanted key is remembered also when
//     the Node had the value before; Cluster API v1.13 forgets those.
//   - Keys of others are neither changed nor removed, also when they are written at the same time: the patch tests the Node's
//     UID and every value it touches, and nothing else. It carries no resourceVersion, so a heartbeat is no conflict.
//   - Nothing to do means no patch and no allocation.
//   - Equal input gives a byte-equal patch.
//   - Inputs are read, never changed or kept.
//
// # Limits
//
// Only values that were there when the Node was read are protected: a rejected patch ([Rejected]) is decided again from a
// fresh read. A kubelet may write its own Node's annotations, so whoever controls a kubelet can have a label of that Node
// removed by listing it as remembered; wanted labels come back. Taints other than Cluster API's uninitialized taint are
// left alone. Values are not validated; the API server does that.
//
// Server-side apply is not used: a Node with duplicate addresses made it fail on servers before 1.29
// (kubernetes-sigs/cluster-api#8417), and taints are an atomic list.
package propagate
