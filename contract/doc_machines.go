// # Fields of Machines, sets and Clusters
//
// Machine:
//
//	ClusterName, by the user; absent: no Cluster
//	    v1beta1, v1beta2: spec.clusterName (string)
//	Bootstrap, by the user; absent: data comes from elsewhere
//	    v1beta1, v1beta2: spec.bootstrap.configRef (reference)
//	DataSecretName, by the controller or user; absent: no data yet
//	    v1beta1, v1beta2: spec.bootstrap.dataSecretName (string)
//	    Kubermatic, Gardener: metadata.annotations.machinist.dev/bootstrap-data-secret (string)
//	Infrastructure, by the user; absent: no infrastructure object
//	    v1beta1, v1beta2: spec.infrastructureRef (reference)
//	ProviderSpec, by the user; absent: none
//	    Kubermatic: spec.providerSpec.value (object)
//	Class, by the user; absent: none
//	    Kubermatic: spec.providerSpec.valueFrom.machineClass (reference)
//	    Gardener: spec.class (reference)
//	ProviderID, by the controller; absent: not known yet
//	    spec.providerID (string)
//	Version, by the user; absent: whatever the image brings
//	    v1beta1, v1beta2: spec.version (string)
//	    Kubermatic: spec.versions.kubelet (string)
//	WantedFailureDomain, by the user; absent: anywhere
//	    v1beta1, v1beta2: spec.failureDomain (string)
//	NodeDrainTimeout, by the user; absent: no limit
//	    v1beta1: spec.nodeDrainTimeout (duration)
//	    v1beta2: spec.deletion.nodeDrainTimeoutSeconds (seconds)
//	    Gardener: spec.drainTimeout (duration)
//	NodeVolumeDetachTimeout, by the user; absent: no limit
//	    v1beta1: spec.nodeVolumeDetachTimeout (duration)
//	    v1beta2: spec.deletion.nodeVolumeDetachTimeoutSeconds (seconds)
//	NodeDeletionTimeout, by the user; absent: 10 s
//	    v1beta1: spec.nodeDeletionTimeout (duration)
//	    v1beta2: spec.deletion.nodeDeletionTimeoutSeconds (seconds)
//	MinReady, by the user; absent: 0
//	    v1beta2: spec.minReadySeconds (seconds)
//	ReadinessGates, by the user; absent: none
//	    v1beta1, v1beta2: spec.readinessGates (list of readiness gates)
//	Taints, by the user; absent: none
//	    v1beta1, v1beta2, Kubermatic: spec.taints (list of taints)
//	    Gardener: spec.nodeTemplate.spec.taints (list of taints)
//	InPlace, by the user; absent: none
//	    Gardener: spec.class.apiGroup, spec.class.kind, spec.creationTimeout, spec.disableHealthTimeout,
//	    spec.healthTimeout, spec.inPlaceUpdateTimeout, spec.maxEvictRetries, spec.nodeConditions,
//	    spec.nodeTemplate.metadata, spec.nodeTemplate.spec (content)
//	Phase, by the controller; absent: no phase yet
//	    v1beta1, v1beta2, Kubermatic: status.phase (string)
//	    Gardener: status.currentStatus.phase (string)
//	NodeName, by the controller; absent: no Node was matched
//	    v1beta1, v1beta2, Kubermatic: status.nodeRef.name (string)
//	    Gardener: metadata.labels.node (string)
//	NodeUID, by the controller; absent: the Node was matched by a controller that does not store it
//	    v1beta1, Kubermatic: status.nodeRef.uid (string)
//	    v1beta2, Gardener: metadata.annotations.machinist.dev/node-uid (string)
//	NodeKind, by the controller; absent: no Node was matched
//	    v1beta1, Kubermatic: status.nodeRef.kind (string)
//	NodeAPIVersion, by the controller; absent: no Node was matched
//	    v1beta1, Kubermatic: status.nodeRef.apiVersion (string)
//	BootstrapReady, by the controller; absent: not yet
//	    v1beta1: status.bootstrapReady (bool)
//	    v1beta2: status.initialization.bootstrapDataSecretCreated (bool)
//	    Kubermatic, Gardener: metadata.annotations.machinist.dev/bootstrap-data-secret-created (bool)
//	InfrastructureReady, by the controller; absent: not yet
//	    v1beta1: status.infrastructureReady (bool)
//	    v1beta2: status.initialization.infrastructureProvisioned (bool)
//	    Kubermatic, Gardener: metadata.annotations.machinist.dev/infrastructure-provisioned (bool)
//	Addresses, by the controller; absent: none known
//	    status.addresses (list of addresses)
//	FailureDomain, by the controller; absent: unknown
//	    v1beta1: spec.failureDomain (string)
//	    v1beta2: status.failureDomain (string)
//	    Kubermatic, Gardener: metadata.annotations.machinist.dev/failure-domain (string)
//	Conditions, by the controller; absent: none
//	    v1beta1: status.v1beta2.conditions, else status.conditions (list of conditions)
//	    v1beta2, Kubermatic, Gardener: status.conditions (list of conditions)
//	ObservedGeneration, by the controller; absent: 0: never looked at
//	    v1beta1, v1beta2: status.observedGeneration (integer)
//	    Kubermatic, Gardener: metadata.annotations.machinist.dev/observed-generation (integer)
//	LastUpdated, by the controller; absent: the phase never changed
//	    v1beta1, v1beta2, Kubermatic: status.lastUpdated (time)
//	    Gardener: status.currentStatus.lastUpdateTime (time)
//	PreDrainStarted, by the controller; absent: not begun
//	    metadata.annotations.machinist.dev/pre-drain-hooks-started (time)
//	DrainStarted, by the controller; absent: not begun
//	    v1beta1, v1beta2: status.deletion.nodeDrainStartTime (time)
//	    Kubermatic, Gardener: metadata.annotations.machinist.dev/drain-started (time)
//	VolumeDetachStarted, by the controller; absent: not begun
//	    v1beta1, v1beta2: status.deletion.waitForNodeVolumeDetachStartTime (time)
//	    Kubermatic, Gardener: metadata.annotations.machinist.dev/volume-detach-started (time)
//	PreTerminateStarted, by the controller; absent: not begun
//	    metadata.annotations.machinist.dev/pre-terminate-hooks-started (time)
//	DrainedNodeUID, by the controller; absent: no Node was drained to the end
//	    metadata.annotations.machinist.dev/drained-node-uid (string)
//	VolumesDetachedNodeUID, by the controller; absent: volumes of no Node were waited for to the end
//	    metadata.annotations.machinist.dev/volumes-detached-node-uid (string)
//	FailureReason, by the controller; absent: no failure
//	    v1beta1: status.failureReason (string)
//	    v1beta2: status.deprecated.v1beta1.failureReason (string)
//	    Kubermatic: status.errorReason (string)
//	    Gardener: metadata.annotations.machinist.dev/failure-reason (string)
//	FailureMessage, by the controller; absent: no failure
//	    v1beta1: status.failureMessage (string)
//	    v1beta2: status.deprecated.v1beta1.failureMessage (string)
//	    Kubermatic: status.errorMessage (string)
//	    Gardener: metadata.annotations.machinist.dev/failure-message (string)
//	CertificatesExpire, by the controller; absent: unknown
//	    v1beta1, v1beta2: status.certificatesExpiryDate (time)
//	    Kubermatic, Gardener: metadata.annotations.machinist.dev/certificates-expire (time)
//
// MachineSet:
//
//	Replicas, by the user or controller; absent: not decided yet
//	    spec.replicas (32-bit integer)
//	Selector, by the user; absent: selects nothing
//	    spec.selector (label selector)
//	Template.Labels, by the user; absent: none
//	    spec.template.metadata.labels (map of strings)
//	Template.Annotations, by the user; absent: none
//	    spec.template.metadata.annotations (map of strings)
//	Template.MadeOf, by the user; absent: none
//	    v1beta1, v1beta2: spec.template.spec.bootstrap.dataSecretName, spec.template.spec.failureDomain,
//	    spec.template.spec.version (content)
//	    Kubermatic: spec.template.spec, spec.template.metadata.labels, spec.template.metadata.annotations (content)
//	    Gardener: spec.template.spec.class.name, spec.template.metadata.labels,
//	    spec.template.metadata.annotations (content)
//	Template.MinReady, by the user; absent: 0
//	    v1beta1, Kubermatic, Gardener: spec.minReadySeconds (seconds)
//	    v1beta2: spec.template.spec.minReadySeconds (seconds)
//	DeletionOrder, by the user; absent: Random
//	    v1beta1, Kubermatic: spec.deletePolicy (string)
//	    v1beta2: spec.deletion.order (string)
//	    Gardener: metadata.annotations.machinist.dev/deletion-order (string)
//	MachineNaming, by the user; absent: the name of the set and a suffix
//	    v1beta1: spec.machineNamingStrategy.template (string)
//	    v1beta2: spec.machineNaming.template (string)
//	    Kubermatic, Gardener: metadata.annotations.machinist.dev/machine-naming (string)
//	SelectorText, by the controller; absent: not known yet
//	    v1beta1, v1beta2: status.selector (string)
//	ObservedReplicas, by the controller; absent: unknown
//	    status.replicas (32-bit integer)
//	ReadyReplicas, by the controller; absent: unknown
//	    v1beta1: status.v1beta2.readyReplicas (32-bit integer)
//	    v1beta2, Gardener: status.readyReplicas (32-bit integer)
//	AvailableReplicas, by the controller; absent: unknown
//	    v1beta1: status.v1beta2.availableReplicas (32-bit integer)
//	    v1beta2, Gardener: status.availableReplicas (32-bit integer)
//	UpToDateReplicas, by the controller; absent: unknown
//	    v1beta1: status.v1beta2.upToDateReplicas (32-bit integer)
//	    v1beta2: status.upToDateReplicas (32-bit integer)
//	NodeReadyReplicas, by the controller; absent: unknown
//	    v1beta1, Kubermatic: status.readyReplicas (32-bit integer)
//	    v1beta2: status.deprecated.v1beta1.readyReplicas (32-bit integer)
//	NodeAvailableReplicas, by the controller; absent: unknown
//	    v1beta1, Kubermatic: status.availableReplicas (32-bit integer)
//	    v1beta2: status.deprecated.v1beta1.availableReplicas (32-bit integer)
//	Conditions, by the controller; absent: none
//	    v1beta1: status.v1beta2.conditions, else status.conditions (list of conditions)
//	    v1beta2, Kubermatic: status.conditions (list of conditions)
//	    Gardener: status.machineSetCondition (list of conditions)
//	FullyLabeledReplicas, by the controller; absent: unknown
//	    v1beta1, Kubermatic, Gardener: status.fullyLabeledReplicas (32-bit integer)
//	    v1beta2: status.deprecated.v1beta1.fullyLabeledReplicas (32-bit integer)
//	Template, as in Machine, below spec.template: ClusterName, Bootstrap, DataSecretName, Infrastructure, ProviderSpec,
//	    Class, ProviderID, Version, WantedFailureDomain, NodeDrainTimeout, NodeVolumeDetachTimeout, NodeDeletionTimeout,
//	    ReadinessGates, Taints, InPlace
//	as in Machine: ClusterName, ObservedGeneration, FailureReason, FailureMessage
//
// MachineDeployment:
//
//	DeletionOrder, by the user; absent: Random
//	    v1beta1: spec.strategy.rollingUpdate.deletePolicy (string)
//	    v1beta2: spec.deletion.order (string)
//	    Kubermatic, Gardener: metadata.annotations.machinist.dev/deletion-order (string)
//	RolloutPaused, by the user or controller; absent: false
//	    spec.paused (bool)
//	RolloutType, by the user; absent: RollingUpdate
//	    v1beta1, Kubermatic, Gardener: spec.strategy.type (string)
//	    v1beta2: spec.rollout.strategy.type (string)
//	AnnotatedRolloutType, by the user; absent: what RolloutType says
//	    v1beta1, v1beta2, Kubermatic: metadata.annotations.machinist.dev/rollout-type (string)
//	InPlaceOrchestration, by the user; absent: Auto
//	    v1beta1, v1beta2, Kubermatic: metadata.annotations.machinist.dev/in-place-orchestration (string)
//	    Gardener: spec.strategy.inPlaceUpdate.orchestrationType (string)
//	MaxSurge, by the user; absent: 1
//	    v1beta1, Kubermatic, Gardener: spec.strategy.rollingUpdate.maxSurge (32-bit integer or percentage)
//	    v1beta2: spec.rollout.strategy.rollingUpdate.maxSurge (32-bit integer or percentage)
//	MaxUnavailable, by the user; absent: 0
//	    v1beta1, Kubermatic, Gardener: spec.strategy.rollingUpdate.maxUnavailable (32-bit integer or percentage)
//	    v1beta2: spec.rollout.strategy.rollingUpdate.maxUnavailable (32-bit integer or percentage)
//	InPlaceMaxSurge, by the user; absent: 1
//	    Gardener: spec.strategy.inPlaceUpdate.maxSurge (32-bit integer or percentage)
//	InPlaceMaxUnavailable, by the user; absent: 0
//	    Gardener: spec.strategy.inPlaceUpdate.maxUnavailable (32-bit integer or percentage)
//	RolloutAfter, by the user or controller; absent: never
//	    v1beta1: spec.rolloutAfter (time)
//	    v1beta2: spec.rollout.after (time)
//	    Kubermatic, Gardener: metadata.annotations.machinist.dev/rollout-after (time)
//	RemediationMaxInFlight, by the user; absent: no limit
//	    v1beta1: spec.strategy.remediation.maxInFlight (32-bit integer or percentage)
//	    v1beta2: spec.remediation.maxInFlight (32-bit integer or percentage)
//	RollbackTo, by the user or controller; absent: no rollback
//	    v1beta1, v1beta2, Kubermatic: metadata.annotations.machinist.dev/rollback-to (integer)
//	    Gardener: spec.rollbackTo.revision (integer)
//	RevisionHistoryLimit, by the user; absent: not said
//	    v1beta1, Kubermatic, Gardener: spec.revisionHistoryLimit (32-bit integer)
//	    v1beta2: metadata.annotations.machinist.dev/revision-history-limit (32-bit integer)
//	ProgressDeadline, by the user; absent: no limit
//	    v1beta1, Kubermatic, Gardener: spec.progressDeadlineSeconds (seconds)
//	    v1beta2: metadata.annotations.machinist.dev/progress-deadline (duration)
//	Phase, by the controller; absent: no phase yet
//	    v1beta1, v1beta2: status.phase (string)
//	    Kubermatic, Gardener: metadata.annotations.machinist.dev/phase (string)
//	UnavailableReplicas, by the controller; absent: unknown
//	    v1beta1, Kubermatic, Gardener: status.unavailableReplicas (32-bit integer)
//	    v1beta2: status.deprecated.v1beta1.unavailableReplicas (32-bit integer)
//	UpdatedReplicas, by the controller; absent: unknown
//	    v1beta1, Kubermatic, Gardener: status.updatedReplicas (32-bit integer)
//	    v1beta2: status.deprecated.v1beta1.updatedReplicas (32-bit integer)
//	Template, as in Machine, below spec.template: ClusterName, Bootstrap, DataSecretName, Infrastructure, ProviderSpec,
//	    Class, ProviderID, Version, WantedFailureDomain, NodeDrainTimeout, NodeVolumeDetachTimeout, NodeDeletionTimeout,
//	    ReadinessGates, Taints, InPlace
//	as in Machine: ClusterName, Conditions, ObservedGeneration
//	as in MachineSet: Replicas, Selector, Template.Labels, Template.Annotations, Template.MadeOf, Template.MinReady,
//	    MachineNaming, SelectorText, ObservedReplicas, ReadyReplicas, AvailableReplicas, UpToDateReplicas,
//	    NodeReadyReplicas, NodeAvailableReplicas
//
// MachinePool:
//
//	ProviderIDs, by the controller; absent: none known
//	    spec.providerIDList (list of strings)
//	FailureDomains, by the user; absent: anywhere
//	    spec.failureDomains (list of strings)
//	Nodes, by the controller; absent: no Node was matched
//	    status.nodeRefs (list of Nodes)
//	Template, as in Machine, below spec.template: ClusterName, Bootstrap, DataSecretName, Infrastructure, ProviderID,
//	    Version, WantedFailureDomain, NodeDrainTimeout, NodeVolumeDetachTimeout, NodeDeletionTimeout, ReadinessGates,
//	    Taints
//	as in Machine: ClusterName, Conditions, ObservedGeneration, Phase, BootstrapReady, InfrastructureReady,
//	    FailureReason, FailureMessage
//	as in MachineDeployment: UnavailableReplicas
//	as in MachineSet: Replicas, Template.Labels, Template.Annotations, Template.MadeOf, Template.MinReady,
//	    ObservedReplicas, ReadyReplicas, AvailableReplicas, UpToDateReplicas, NodeReadyReplicas, NodeAvailableReplicas
//
// MachineHealthCheck:
//
//	Selector, by the user; absent: no Machine
//	    spec.selector (label selector)
//	NodeRules, by the user; absent: none
//	    v1beta1: spec.unhealthyConditions (list of rules with timeout)
//	    v1beta2: spec.checks.unhealthyNodeConditions (list of rules with timeoutSeconds)
//	MachineRules, by the user; absent: none
//	    v1beta1: spec.unhealthyMachineConditions (list of rules with timeout)
//	    v1beta2: spec.checks.unhealthyMachineConditions (list of rules with timeoutSeconds)
//	NodeStartup, by the user; absent: 10 min
//	    v1beta1: spec.nodeStartupTimeout (duration)
//	    v1beta2: spec.checks.nodeStartupTimeoutSeconds (seconds)
//	MaxUnhealthy, by the user; absent: 100%
//	    v1beta1: spec.maxUnhealthy (32-bit integer or percentage)
//	    v1beta2: spec.remediation.triggerIf.unhealthyLessThanOrEqualTo (32-bit integer or percentage)
//	UnhealthyRange, by the user; absent: the maximum counts
//	    v1beta1: spec.unhealthyRange (string)
//	    v1beta2: spec.remediation.triggerIf.unhealthyInRange (string)
//	Template, by the user; absent: owners remediate
//	    v1beta1: spec.remediationTemplate (reference)
//	    v1beta2: spec.remediation.templateRef (reference)
//	ExpectedMachines, by the controller; absent: unknown
//	    status.expectedMachines (32-bit integer)
//	CurrentHealthy, by the controller; absent: unknown
//	    status.currentHealthy (32-bit integer)
//	RemediationsAllowed, by the controller; absent: unknown
//	    status.remediationsAllowed (32-bit integer)
//	Targets, by the controller; absent: none
//	    status.targets (list of strings)
//	as in Machine: ClusterName, Conditions, ObservedGeneration
//
// Cluster:
//
//	Paused, by the user; absent: not paused
//	    spec.paused (bool)
//	InfrastructureProvisioned, by the controller; absent: not yet
//	    v1beta1: status.infrastructureReady (bool)
//	    v1beta2: status.initialization.infrastructureProvisioned (bool)
//	ControlPlaneInitialized, by the controller; absent: what the condition says
//	    v1beta2: status.initialization.controlPlaneInitialized (bool)
//	ControlPlane, by the user; absent: Machines without a controller, or none
//	    spec.controlPlaneRef (reference)
//	Conditions, by the controller; absent: none, and the flag counts
//	    status.conditions (list of conditions)
package contract
