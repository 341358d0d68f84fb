// Package clusterapi has the kinds of cluster.x-k8s.io/v1beta2 for Cluster API's own Go types, for operators that have these types in their
// scheme and cache: Machine, MachineSet, MachineDeployment, MachinePool and MachineHealthCheck.
//
// A cache of controller-runtime has separate informers for a Go type and for unstructured objects of the same kind. With these kinds, the
// reconcilers of this module share the informers of the operator's own controllers. Each kind stores its state in the same fields and
// annotations as the unstructured one, so an operator may change from one to the other at any time.
//
// # Usage
//
//	clusterapi.AddToScheme(scheme)
//	machine.SetupWithManager(ctx, mgr, clusterapi.Machine(), machine.Options{})
//	machineset.SetupWithManager(ctx, mgr, clusterapi.Kinds(), machineset.Options{})
//
// [Kinds] and [MachinePools] return the kinds for the packages that reconcile them. Their Clusters are read by pass.ClustersFromManager as
// unstructured objects.
//
// # Differences from unstructured objects
//
//   - Fields that the Go types do not have are not read. Patches preserve them, because they contain only what an update changes. But the
//     spec of a new Machine, the template of a new MachineSet, and changed readiness gates and taints have only the fields of the Go types.
//   - The deprecated counters (NodeReadyReplicas, NodeAvailableReplicas, FullyLabeledReplicas, UnavailableReplicas and UpdatedReplicas) are
//     numbers without "unknown". They are absent only without status.deprecated.v1beta1. Writing or clearing one sets the others of a
//     MachineSet and of a MachineDeployment to 0.
//   - An empty selector selects nothing, like an absent one. The API rejects it.
//   - When the last condition, address or Node is removed, the list is removed too.
//
// # Guarantees
//
// Everything is safe for concurrent use. Reading an object into the state of an earlier read of it allocates nothing.
//
// # Limits
//
// There is no v1beta1: Cluster API has deprecated its types, and package contract reads unstructured objects of it. A patch is computed
// from unstructured content, so a write costs a conversion of the object.
package clusterapi
