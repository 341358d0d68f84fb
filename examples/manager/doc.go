// Command manager runs Machinist's Machine reconciler against a cluster with Cluster API's CRDs: it leads every Machine of
// cluster.x-k8s.io/v1beta2 through its life, with the infrastructure and bootstrap providers that are installed.
//
// It takes the place of Cluster API's own core manager: do not run both. The rights that it needs are printed by
//
//	go run ./examples/manager --print-rbac
//
// At its start it asks the API server for each of them, names those that are missing, and ends.
// They follow the other flags: give those too that it is to run with. What is printed is exactly enough, as an end-to-end test
// makes sure, and less where the kinds of the providers are named (--provider-resources). The users that kubeconfigs of workload
// clusters stand for need what --print-node-rbac prints, there.
//
// Nodes are drained as Cluster API does it: pods may have its drain label, and MachineDrainRules count from when their
// CustomResourceDefinition is there. Volumes are waited for after the drain.
//
// Its requests carry the user agent machinist-manager, so that an audit log can tell them from others.
//
// With --machinepools it looks after MachinePools too; with --machinepool-group=machinist.dev after those that --print-crds defines.
// They have Cluster API's fields, and a selector in their Scale, so that a HorizontalPodAutoscaler takes them.
//
// # Limits
//
// It acts on Machines only, on what flags add, and on Nodes of the cluster that it talks to or, with --workload-clusters, of those
// that Machines name. Clusters (--clusters), MachineSets and MachineDeployments, if there are any, it only reads: it does not look after them or
// their control planes. It serves no webhooks.
package main
