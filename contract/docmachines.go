// # Fields of Machines and their sets
//
// Machine:
//
//	ClusterName, by the user; absent: no Cluster
//	    spec.clusterName (string)
//	Bootstrap, by the user; absent: data comes from elsewhere
//	    spec.bootstrap.configRef (reference)
//	DataSecretName, by the controller or user; absent: no data yet
//	    spec.bootstrap.dataSecretName (string)
//	Infrastructure, by the user; absent: no infrastructure object
//	    spec.infrastructureRef (reference)
//	ProviderID, by the controller; absent: not known yet
//	    spec.providerID (string)
//	Version, by the user; absent: whatever the image brings
//	    spec.version (string)
//	WantedFailureDomain, by the user; absent: anywhere
//	    spec.failureDomain (string)
//	NodeDrainTimeout, by the user; absent: no limit
//	    v1beta1: spec.nodeDrainTimeout (duration)
//	    v1beta2: spec.deletion.nodeDrainTimeoutSeconds (seconds)
//	NodeVolumeDetachTimeout, by the user; absent: no limit
//	    v1beta1: spec.nodeVolumeDetachTimeout (duration)
//	    v1beta2: spec.deletion.nodeVolumeDetachTimeoutSeconds (seconds)
//	NodeDeletionTimeout, by the user; absent: 10 s
//	    v1beta1: spec.nodeDeletionTimeout (duration)
//	    v1beta2: spec.deletion.nodeDeletionTimeoutSeconds (seconds)
//	MinReady, by the user; absent: 0
//	    v1beta2: spec.minReadySeconds (seconds)
//	ReadinessGates, by the user; absent: none
//	    spec.readinessGates (list of readiness gates)
//	Taints, by the user; absent: none
//	    spec.taints (list of taints)
//	Phase, by the controller; absent: no phase yet
//	    status.phase (string)
//	NodeName, by the controller; absent: no Node was matched
//	    status.nodeRef.name (string)
//	NodeUID, by the controller; absent: the Node was matched by somebody who does not keep it
//	    v1beta1: status.nodeRef.uid (string)
//	    v1beta2: metadata.annotations.machinist.dev/node-uid (string)
//	NodeKind, by the controller; absent: no Node was matched
//	    v1beta1: status.nodeRef.kind (string)
//	NodeAPIVersion, by the controller; absent: no Node was matched
//	    v1beta1: status.nodeRef.apiVersion (string)
//	BootstrapReady, by the controller; absent: not yet
//	    v1beta1: status.bootstrapReady (bool)
//	    v1beta2: status.initialization.bootstrapDataSecretCreated (bool)
//	InfrastructureReady, by the controller; absent: not yet
//	    v1beta1: status.infrastructureReady (bool)
//	    v1beta2: status.initialization.infrastructureProvisioned (bool)
//	Addresses, by the controller; absent: none known
//	    status.addresses (list of addresses)
//	FailureDomain, by the controller; absent: unknown
//	    v1beta1: spec.failureDomain (string)
//	    v1beta2: status.failureDomain (string)
//	Conditions, by the controller; absent: none
//	    v1beta1: status.v1beta2.conditions, else status.conditions (list of conditions)
//	    v1beta2: status.conditions (list of conditions)
//	ObservedGeneration, by the controller; absent: 0: never looked at
//	    status.observedGeneration (integer)
//	LastUpdated, by the controller; absent: the phase never changed
//	    status.lastUpdated (time)
//	PreDrainStarted, by the controller; absent: not begun
//	    metadata.annotations.machinist.dev/pre-drain-hooks-started (time)
//	DrainStarted, by the controller; absent: not begun
//	    status.deletion.nodeDrainStartTime (time)
//	VolumeDetachStarted, by the controller; absent: not begun
//	    status.deletion.waitForNodeVolumeDetachStartTime (time)
//	PreTerminateStarted, by the controller; absent: not begun
//	    metadata.annotations.machinist.dev/pre-terminate-hooks-started (time)
//	DrainedNodeUID, by the controller; absent: no Node was drained to the end
//	    metadata.annotations.machinist.dev/drained-node-uid (string)
//	FailureReason, by the controller; absent: no failure
//	    v1beta1: status.failureReason (string)
//	    v1beta2: status.deprecated.v1beta1.failureReason (string)
//	FailureMessage, by the controller; absent: no failure
//	    v1beta1: status.failureMessage (string)
//	    v1beta2: status.deprecated.v1beta1.failureMessage (string)
//	CertificatesExpire, by the controller; absent: unknown
//	    status.certificatesExpiryDate (time)
package contract
