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
//	    status.failureDomain (string)
//	FailureDomainFallback, MAY by the provider; absent: unknown
//	    spec.failureDomain (string)
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
//	as in InfraMachine: FailureReason, FailureMessage, Paused, Conditions
//
// InfraMachinePool:
//
//	Provisioned, MUST by the provider; absent: what the fallback says
//	    v1alpha3, v1alpha4, v1beta1: status.ready (bool)
//	    v1beta2: status.initialization.provisioned (bool)
//	ProvisionedFallback, MAY by the provider; absent: not yet
//	    v1alpha3, v1alpha4, v1beta1: status.initialization.provisioned (bool)
//	    v1beta2: status.ready (bool)
//	ProviderIDList, MUST by the provider; absent: not known yet; none where replicas is 0
//	    spec.providerIDList (list of strings)
//	Replicas, MUST by the provider; absent: what the MachinePool says stays
//	    status.replicas (32-bit integer)
//	InfrastructureMachineKind, MAY by the provider; absent: no Machines for the machines of the group
//	    status.infrastructureMachineKind (string)
//	ProviderID, MAY by the provider; absent: unknown
//	    spec.providerID (string)
//	Instances, MAY by the provider; absent: none told
//	    status.instances (list of instances)
//	as in InfraMachine: FailureReason, FailureMessage, Paused, Conditions
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
//	as in InfraMachineTemplate: Labels, Annotations, Spec
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
//	CurrentVersions, MAY by the provider; absent: what CurrentVersion says
//	    status.versions (list of versions)
//	DesiredReplicas, MAY by the user; absent: the provider knows no replicas, or a default
//	    spec.replicas (32-bit integer)
//	CurrentReplicas, MAY by the provider; absent: unknown
//	    status.replicas (32-bit integer)
//	Conditions, SHOULD by the provider; absent: none
//	    status.v1beta2.conditions, else status.conditions, else status.deprecated.v1beta1.conditions (list of conditions)
//	as in InfraMachine: FailureReason, FailureMessage, Paused
//
// InfraMachine, as its own provider writes it:
//
//	ClusterName, by the controller; absent: no Cluster
//	    metadata.labels.cluster.x-k8s.io/cluster-name (string)
//	Spec, by the user; absent: none
//	    spec (object)
//	Resume, by the provider; absent: none
//	    metadata.annotations.machinist.dev/instance-resume (string)
//	Addresses, MAY by the provider; absent: none known
//	    status.addresses (list of addresses)
//	FailureDomain, MAY by the provider; absent: unknown
//	    v1alpha3, v1alpha4, v1beta1: spec.failureDomain (string)
//	    v1beta2: status.failureDomain (string)
//	Conditions, SHOULD by the provider; absent: none
//	    v1alpha3, v1alpha4, v1beta1: status.v1beta2.conditions, else status.conditions (list of conditions)
//	    v1beta2: status.conditions (list of conditions)
//	as in InfraMachine: ProviderID, Provisioned, FailureReason, FailureMessage
package contract
