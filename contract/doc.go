// Package contract reads and writes what a provider object or a Machine says, as plain values.
//
// Cluster API's provider contract fixes where an InfraMachine or a BootstrapConfig keeps each value, per contract version.
// Here a version is a table of [Field] values ([InfraMachine], [BootstrapConfig], [InfraMachinePool],
// [InfraMachineTemplate], [BootstrapConfigTemplate], [ControlPlane]), and a Machine or a set of any shape is a table too
// ([MachineLayout], [MachineSetLayout], [MachineDeploymentLayout], [MachinePoolLayout], [HealthCheckLayout]): reconcilers see
// states and updates such as [MachineState] and [MachineUpdate], never an API type.
//
// # Usage
//
// Find the contract version of a kind from the labels of its CRD with [CRDName] and [Resolve], take the layout and read:
//
//	resolved, err := contract.Resolve(crd.Name, crd.Labels)
//	var state contract.InfraMachineState
//	err = contract.InfraMachine(resolved.Contract).Read(obj, &state)
//
// A kind of Machine is a [Kind]: [Unstructured] makes one of a table, [NewTyped] of a Go type. [FromTemplate] makes the
// object that a template stands for.
//
// # Guarantees
//
// Everything is safe for concurrent use. Reading a scalar or a provider object into a reused state allocates nothing, keeps
// nothing and changes nothing. Absent is a value and not an error; a value of another type is an error that matches
// [ErrWrongType] and names the dotted path. What cannot be read and holds nothing up, because it is for people or not due
// yet, is named in the Unreadable member of a state; a Ready condition that cannot be read is Unknown with
// [ReasonInvalidCondition].
//
// What an adapter writes it reads back equal, times to the second, and every other field stays as it was. State that the
// served schema has no field for lives in machinist.dev annotations.
//
// Patches are the difference of two objects ([MergePatch]) rather than a second writer beside the adapter: an adapter says
// once where a value goes, and the patch is minimal by construction, also when an update sets what is already there.
//
// # Fields of provider objects
//
// InfraMachine:
//
//	Provisioned, MUST by the provider; absent: not yet
//	    v1alpha3, v1alpha4, v1beta1: status.ready (bool)
//	    v1beta2: status.initialization.provisioned (bool)
//	ProviderID, MUST by the provider; absent: not known yet
//	    spec.providerID (string)
//	Addresses, MAY by the provider; absent: what the Machine says stays
//	    status.addresses (list of addresses)
//	FailureDomain, MAY by the provider; absent: what the fallback says
//	    v1alpha3, v1alpha4, v1beta1: spec.failureDomain (string)
//	    v1beta2: status.failureDomain (string)
//	FailureDomainFallback, MAY by the provider; absent: unknown
//	    v1alpha3, v1alpha4, v1beta1: status.failureDomain (string)
//	    v1beta2: spec.failureDomain (string)
//	Interruptible, MAY by the provider; absent: false
//	    status.interruptible (bool)
//	FailureReason, MAY by the provider; absent: no failure
//	    status.failureReason (string)
//	FailureMessage, MAY by the provider; absent: no failure
//	    status.failureMessage (string)
//	Paused, MAY by the user; absent: not paused
//	    metadata.annotations.cluster.x-k8s.io/paused (string)
//	Conditions, SHOULD by the provider; absent: none, and the owner goes by the flag
//	    status.v1beta2.conditions, else status.conditions, else status.deprecated.v1beta1.conditions (list of conditions)
//
// BootstrapConfig:
//
//	DataSecretCreated, MUST by the provider; absent: not yet
//	    v1alpha3, v1alpha4, v1beta1: status.ready (bool)
//	    v1beta2: status.initialization.dataSecretCreated (bool)
//	DataSecretName, MUST by the provider; absent: not known yet
//	    status.dataSecretName (string)
//	CertificatesExpire, MAY by the provider; absent: unknown
//	    metadata.annotations.machine.cluster.x-k8s.io/certificates-expiry (time)
//	FailureReason, MAY by the provider; absent: no failure
//	    status.failureReason (string)
//	FailureMessage, MAY by the provider; absent: no failure
//	    status.failureMessage (string)
//	Paused, MAY by the user; absent: not paused
//	    metadata.annotations.cluster.x-k8s.io/paused (string)
//	Conditions, SHOULD by the provider; absent: none, and the owner goes by the flag
//	    status.v1beta2.conditions, else status.conditions, else status.deprecated.v1beta1.conditions (list of conditions)
//
// InfraMachinePool:
//
//	Provisioned, MUST by the provider; absent: what the fallback says
//	    v1alpha3, v1alpha4, v1beta1: status.ready (bool)
//	    v1beta2: status.initialization.provisioned (bool)
//	ProvisionedFallback, MAY by the provider; absent: not yet
//	    v1alpha3, v1alpha4, v1beta1: status.initialization.provisioned (bool)
//	    v1beta2: status.ready (bool)
//	ProviderIDList, MUST by the provider; absent: not known yet
//	    spec.providerIDList (list of strings)
//	Replicas, MUST by the provider; absent: what the MachinePool says stays
//	    status.replicas (32-bit integer)
//	InfrastructureMachineKind, MAY by the provider; absent: no Machines for the machines of the group
//	    status.infrastructureMachineKind (string)
//	ProviderID, MAY by the provider; absent: unknown
//	    spec.providerID (string)
//	Instances, MAY by the provider; absent: none told
//	    status.instances (list of instances)
//	FailureReason, MAY by the provider; absent: no failure
//	    status.failureReason (string)
//	FailureMessage, MAY by the provider; absent: no failure
//	    status.failureMessage (string)
//	Paused, MAY by the user; absent: not paused
//	    metadata.annotations.cluster.x-k8s.io/paused (string)
//	Conditions, SHOULD by the provider; absent: none, and the owner goes by the flag
//	    status.v1beta2.conditions, else status.conditions, else status.deprecated.v1beta1.conditions (list of conditions)
//
// InfraMachineTemplate:
//
//	Labels, MAY by the user; absent: none
//	    spec.template.metadata.labels (map of strings)
//	Annotations, MAY by the user; absent: none
//	    spec.template.metadata.annotations (map of strings)
//	Spec, MUST by the user; absent: clones have no spec
//	    spec.template.spec (object)
//	Capacity, MAY by the provider; absent: no scaling from zero, unless annotations say it
//	    status.capacity (map of quantities)
//	Architecture, MAY by the provider; absent: what cluster-autoscaler was told, or amd64
//	    status.nodeInfo.architecture (string)
//	OperatingSystem, MAY by the provider; absent: linux
//	    status.nodeInfo.operatingSystem (string)
//
// BootstrapConfigTemplate:
//
//	Labels, MAY by the user; absent: none
//	    spec.template.metadata.labels (map of strings)
//	Annotations, MAY by the user; absent: none
//	    spec.template.metadata.annotations (map of strings)
//	Spec, MUST by the user; absent: clones have no spec
//	    spec.template.spec (object)
//
// ControlPlane:
//
//	Deleting, by the API server; absent: not being deleted
//	    metadata.deletionTimestamp (time)
//	Initialized, MUST by the provider; absent: not yet
//	    v1alpha3, v1alpha4, v1beta1: status.initialized (bool)
//	    v1beta2: status.initialization.controlPlaneInitialized (bool)
//	ExternalManagedControlPlane, MAY by the provider; absent: false
//	    status.externalManagedControlPlane (bool)
//	DesiredVersion, MAY by the user; absent: the provider knows no versions
//	    spec.version (string)
//	CurrentVersion, MAY by the provider; absent: made for the first time, or unknown
//	    status.version (string)
//	DesiredReplicas, MAY by the user; absent: the provider knows no replicas, or a default
//	    spec.replicas (32-bit integer)
//	CurrentReplicas, MAY by the provider; absent: unknown
//	    status.replicas (32-bit integer)
//	FailureReason, MAY by the provider; absent: no failure
//	    status.failureReason (string)
//	FailureMessage, MAY by the provider; absent: no failure
//	    status.failureMessage (string)
//	Paused, MAY by the user; absent: not paused
//	    metadata.annotations.cluster.x-k8s.io/paused (string)
//	Conditions, SHOULD by the provider; absent: none
//	    status.v1beta2.conditions, else status.conditions, else status.deprecated.v1beta1.conditions (list of conditions)
//
// # Limits
//
// The package imports apimachinery and k8s.io/api only. Strings of more than 1 MiB and lists of more than 65,536 entries are
// refused: no API server stores them.
package contract
