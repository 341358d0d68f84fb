// Package autoscaler says what cluster-autoscaler's clusterapi provider reads and writes on MachineSets, MachineDeployments,
// MachinePools, Machines and their Nodes, and checks that they meet it.
//
// The autoscaler also works with another API group than Cluster API's, which its environment variable CAPI_GROUP names. Some
// keys then begin with that group and others stay as they are: [Keys] are those that follow, and [Keys.All] lists them all.
//
// # Usage
//
// Check an object, with whatever is known around it, and the CRD of its kind:
//
//	findings := autoscaler.Check(autoscaler.DefaultKeys(), deployment, autoscaler.Around{Machines: machines})
//	findings = append(findings, autoscaler.CheckCRD(autoscaler.DefaultKeys(), crd)...)
//
// The command examples/contractlint does this for files, with -autoscaler. Or ask one question: [StandingOf] (is this a node
// group), [CapacityOf] (what would a new Node offer), [Keys.ParseBounds], [Keys.ParseOptions], [InstanceOf] (what is this
// Machine taken for), [RollingOut] (does a rollout keep Nodes), [ReplicasManagedElsewhere].
//
// # Keys
//
// "follows" marks a key that begins with the API group, here Cluster API's own; "written" one that the autoscaler writes. A key
// that ends in "-" or "/" is a prefix. Scalable objects: MachineDeployments, MachinePools, and MachineSets that no MachineDeployment owns.
//
//	cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size  annotation of scalable objects, follows
//	cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size  annotation of scalable objects, follows
//	cluster.x-k8s.io/autoscaling-options-                        annotation of scalable objects, follows
//	cluster.x-k8s.io/delete-machine                              annotation of Machines, follows, written
//	cluster.x-k8s.io/cluster-name                                label of scalable objects and Machines, follows
//	cluster.x-k8s.io/machine                                     annotation of Nodes, follows
//	cluster.x-k8s.io/cluster-namespace                           annotation of Nodes, follows
//	capacity.cluster-autoscaler.kubernetes.io/cpu                annotation of scalable objects
//	capacity.cluster-autoscaler.kubernetes.io/memory             annotation of scalable objects
//	capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk     annotation of scalable objects
//	capacity.cluster-autoscaler.kubernetes.io/maxPods            annotation of scalable objects
//	capacity.cluster-autoscaler.kubernetes.io/gpu-type           annotation of scalable objects
//	capacity.cluster-autoscaler.kubernetes.io/gpu-count          annotation of scalable objects
//	capacity.cluster-autoscaler.kubernetes.io/labels             annotation of scalable objects
//	capacity.cluster-autoscaler.kubernetes.io/taints             annotation of scalable objects
//	capacity.cluster-autoscaler.kubernetes.io/csi-driver         annotation of scalable objects
//	capacity.cluster-autoscaler.kubernetes.io/dra-driver         annotation of scalable objects
//	cluster.x-k8s.io/paused                                      annotation of scalable objects
//	machinedeployment.clusters.x-k8s.io/revision                 annotation of MachineSets
//	cluster.x-k8s.io/deployment-name                             label of MachineSets
//	ToBeDeletedByClusterAutoscaler                               taint of Nodes, written
//	delay-deletion.cluster-autoscaler.kubernetes.io/             annotation of Nodes
//	cluster-api/accelerator                                      label of Nodes
//
// With another group, pauses and rollouts are still seen only through Cluster API's own keys.
//
// # Fields
//
//	MachineSet, MachineDeployment  spec.replicas, spec.selector, spec.clusterName, metadata.ownerReferences
//	                               spec.template.spec.infrastructureRef, spec.template.spec.taints
//	                               spec.template.metadata.labels and spec.template.spec.metadata.labels, by its version
//	MachineSet                     status.replicas
//	MachinePool                    the same without spec.selector, and spec.providerIDList
//	Machine                        spec.providerID, spec.clusterName, metadata.ownerReferences, metadata.deletionTimestamp
//	                               status.nodeRef, status.phase and status.failureMessage
//	infrastructure template        status.capacity, status.nodeInfo
//	Node                           spec.providerID, well-known labels
//
// It writes replicas, as a merge patch of the scale subresource, and the annotation delete-machine, as an update of the whole
// Machine. To remove a Node it first marks the Machine and then lowers replicas by one, one Node after the other. So a MachineSet
// has to look for marks before it picks a victim, and a MachineDeployment has to shrink the set that owns the marked Machine.
//
// # Guarantees
//
// Everything is a pure function of its arguments and safe for concurrent use; objects are neither changed nor kept. No content of
// an object makes it panic. Findings and errors come in the same order every time, and show at most 60 bytes of a value.
//
// Parsing is as the autoscaler's, with one difference: what it passes over in silence is an error here, an [AnnotationError]
// or a [contract.FieldError], and what could be read is returned beside the error. Quantities are at most 64 bytes with an
// exponent of at most two digits, because more can keep the parser of quantities busy for hours.
//
// # Limits
//
// The rules are those of 2026. Older versions take a Machine with status.failureMessage for failed whatever its phase, know
// fewer options and capacity annotations, and read no taints but those of the annotation. What --node-group-auto-discovery limits
// an autoscaler to is not looked at; Machines, MachineSets and MachineDeployments must all have the labels that it asks for. RBAC and
// a group's preferred version are not visible in objects.
package autoscaler
