// Package clusterapi has the kinds of cluster.x-k8s.io/v1beta2 for Cluster API's own Go types, for operators that have these types in
// their scheme and cache: Machine, MachineSet, MachineDeployment, MachinePool and MachineHealthCheck.
//
// A cache of controller-runtime has one informer for a kind and a second one for the same kind as unstructured objects. With these kinds,
// the reconcilers of this module read the informers of the operator's own controllers. Each kind keeps its state in the same places as the
// unstructured one, annotations included, so that an operator may change from one to the other at any time.
//
// # Usage
//
//	clusterapi.AddToScheme(scheme)
//	machine.SetupWithManager(ctx, mgr, clusterapi.Machine(), machine.Options{})
//	machineset.SetupWithManager(ctx, mgr, clusterapi.Kinds(), machineset.Options{})
//
// [MachineSets], [MachineDeployments], [MachinePools] and [MachineHealthChecks] are the Kinds of the packages that reconcile them. The
// Clusters that they follow are read as everywhere, by pass.ClustersFromManager: as unstructured objects.
//
// # What differs from unstructured objects
//
//   - Fields that the Go types do not know are not seen. They are not lost: patches have only what an update changes. But the spec of
//     a new Machine, the template of a new MachineSet, and readiness gates and taints that change, have only fields that the Go types know.
//   - The deprecated counters (NodeReadyReplicas, NodeAvailableReplicas, FullyLabeledReplicas, UnavailableReplicas and UpdatedReplicas) are
//     numbers without "unknown". They are absent only while there is no status.deprecated.v1beta1. Writing or clearing one makes the
//     others of a MachineSet and of a MachineDeployment 0.
//   - An empty selector selects nothing, as an absent one. The API refuses it.
//   - When the last condition, address or Node is removed, the list goes with it.
//
// # Guarantees
//
// Everything is safe for concurrent use. Reading an object into the state of an earlier read of it allocates nothing.
//
// # Limits
//
// There is no v1beta1: Cluster API has deprecated its types, and unstructured objects of it are read by package contract. A patch is
// computed from unstructured content, so a write costs a conversion of the object.
package clusterapi
