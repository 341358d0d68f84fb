// Package api has the kinds that the manager reconciles, in two groups with equal fields: Cluster API's cluster.x-k8s.io/v1beta2, whose
// CustomResourceDefinitions are its own, and machinist.dev/v1beta2, whose are made of the Go types here (crds.yaml). Two further groups are
// those of other systems: Kubermatic's cluster.k8s.io/v1alpha1 and Gardener's machine.sapcloud.io/v1alpha1, with their own fields and
// CustomResourceDefinitions. Group selects one.
//
// A Machine has a Go type in the cache. It needs less than a third of the memory of unstructured content there, and it is decoded faster.
// It shows what an embedder writes for a type: the type (machine.go), and how it is read and written (adapter.go); controller-gen makes its
// copies and its schema. The other kinds are few: the Reconcilers read them as unstructured content, and their Go types are for clients.
//
// The schemas of machinist.dev differ from Cluster API's in what testdata/differences.txt lists. The message of a rule in CEL names what to
// give instead, and a test on a real control plane breaks each of them.
//
// # MachineClasses
//
// A Machine of a driver names a MachineClass of machinist.dev as its infrastructureRef. There is no field classRef: Cluster API's Machine
// has no such field and would drop it, while a Machine with this reference can be read and stored under both groups. In the template of a
// set or a deployment the reference names the class itself, which is not cloned; another class there is another template, and so a
// rollout. A change of a class itself is none: it applies to instances that are made later.
// What is wrong with a class is in the condition InfrastructureReady of its Machines.
//
// # Limits
//
// Fields that a type does not have, such as status.nodeInfo, are dropped when a Machine is decoded. Reconcilers of
// this module write only patches, so these fields stay on the server. Do not write such a Machine with an Update, and
// do not print it as a complete Machine.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=machinist.dev
// +versionName=v1beta2
package api
