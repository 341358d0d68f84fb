// Package api has a Go type for Machine of cluster.x-k8s.io/v1beta2, with the fields that a Reconciler reads or writes,
// and its adapter. In a cache, a Machine of a Go type needs less than a third of the memory of unstructured content,
// and it is decoded faster. On the wire it is Cluster API's Machine, whose CustomResourceDefinition is its only schema.
//
// It shows what an embedder writes for a type: the type (machine.go), its copies (deepcopy.go), and how it is read and
// written (adapter.go).
//
// # Limits
//
// Fields that the type does not have, such as status.nodeInfo, are dropped when a Machine is decoded. Reconcilers of
// this module write only patches, so these fields stay on the server. Do not write such a Machine with an Update, and
// do not print it as a complete Machine.
package api
