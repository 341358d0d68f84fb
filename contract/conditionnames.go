package contract

// Condition types that several kinds have. They are Cluster API's, so that its dashboards and tools work. ConditionReady and
// ConditionAvailable are two more.
const (
	ConditionBootstrapConfigReady = "BootstrapConfigReady"
	ConditionInfrastructureReady  = "InfrastructureReady"
	ConditionUpToDate             = "UpToDate"
	ConditionNodeReady            = "NodeReady"
	ConditionMachinesReady        = "MachinesReady"
	ConditionMachinesUpToDate     = "MachinesUpToDate"
	ConditionScalingUp            = "ScalingUp"
	ConditionScalingDown          = "ScalingDown"
	ConditionRemediating          = "Remediating"
	ConditionDeleting             = "Deleting"
	ConditionPaused               = "Paused"
	// ConditionHealthCheckSucceeded of a Machine is written by a MachineHealthCheck, and ConditionOwnerRemediated by the owner of the
	// Machine.
	ConditionHealthCheckSucceeded = "HealthCheckSucceeded"
	ConditionOwnerRemediated      = "OwnerRemediated"
	// ConditionExternallyRemediated of a Machine says how far the object is that remediates it.
	ConditionExternallyRemediated = "ExternallyRemediated"
	// ConditionRemediationAllowed of a MachineHealthCheck says whether unhealthy Machines are remediated.
	ConditionRemediationAllowed = "RemediationAllowed"
)

// Reasons of conditions that several kinds have. They are Cluster API's.
const (
	ReasonReady                 = "Ready"
	ReasonNotReady              = "NotReady"
	ReasonReadyUnknown          = "ReadyUnknown"
	ReasonAvailable             = "Available"
	ReasonUpToDate              = "UpToDate"
	ReasonNotUpToDate           = "NotUpToDate"
	ReasonDataSecretProvided    = "DataSecretProvided"
	ReasonDoesNotExist          = "ObjectDoesNotExist"
	ReasonDeleted               = "ObjectDeleted"
	ReasonInternalError         = "InternalError"
	ReasonInspectionFailed      = "InspectionFailed"
	ReasonConnectionDown        = "ConnectionDown"
	ReasonNoReplicas            = "NoReplicas"
	ReasonScalingUp             = "ScalingUp"
	ReasonNotScalingUp          = "NotScalingUp"
	ReasonScalingDown           = "ScalingDown"
	ReasonNotScalingDown        = "NotScalingDown"
	ReasonWaitingForReplicasSet = "WaitingForReplicasSet"
	ReasonRemediating           = "Remediating"
	ReasonNotRemediating        = "NotRemediating"
	ReasonPaused                = "Paused"
	ReasonNotPaused             = "NotPaused"
	ReasonDeleting              = "Deleting"
	ReasonNotDeleting           = "NotDeleting"
)

// Reasons of ConditionOwnerRemediated. They are Cluster API's. A health check writes the first one, and owners the others.
const (
	ReasonWaitingForRemediation = "WaitingForRemediation"
	ReasonCannotBeRemediated    = "CannotBeRemediated"
	ReasonRemediationDeferred   = "RemediationDeferred"
	ReasonMachineDeleting       = "MachineDeleting"
)

// Reasons of the condition Deleting that name the stages of a deletion. They are Cluster API's.
const (
	ReasonDrainingNode                     = "DrainingNode"
	ReasonWaitingForInfrastructureDeletion = "WaitingForInfrastructureDeletion"
	ReasonWaitingForBootstrapDeletion      = "WaitingForBootstrapDeletion"
	ReasonDeletingNode                     = "DeletingNode"
	ReasonDeletionCompleted                = "DeletionCompleted"
)

// Reasons for problems that Cluster API only logs as errors, and that a person can fix. Those about referenced objects are in package
// contract/external.
const (
	// ReasonOwnedByAnother: another controller owns the referenced object.
	ReasonOwnedByAnother = "OwnedByAnother"
	// ReasonDataSecretNameMissing: the bootstrap data was created, but its Secret is not named.
	ReasonDataSecretNameMissing = "DataSecretNameMissing"
	// ReasonAmbiguousNode: several Nodes have one provider ID.
	ReasonAmbiguousNode = "AmbiguousNode"
	// ReasonNodeClaimed: several objects claim one Node.
	ReasonNodeClaimed = "NodeClaimed"
	// ReasonClusterDoesNotExist: the API server has confirmed that the Cluster of the object does not exist, so that it is unknown whether
	// the object is paused.
	ReasonClusterDoesNotExist = "ClusterDoesNotExist"
)
