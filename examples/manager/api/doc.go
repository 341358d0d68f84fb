// Package api has a Go type for Machine of cluster.x-k8s.io/v1beta2, with the fields that a Reconciler reads or writes, and the
// adapter that translates it: in a cache, a Machine of a Go type takes less than a third of the memory that unstructured content takes,
// and it is decoded faster. On the wire it is Cluster API's Machine, whose CustomResourceDefinition is its only schema.
//
// It shows what an embedder writes for a type of their own: the type (machine.go), its copies (deepcopy.go), and how it is read and
// written (adapter.go).
//
// # Limits
//
// What the type has no field for, such as status.nodeInfo, is dropped when a Machine is decoded. Reconcilers of this module write
// patches of what they change, so it stays on the server. Do not write such a Machine with an Update, and do not print one as if it
// were whole.
package api
