package contract

// Condition types that several kinds have. They are Cluster API's, so that its dashboards and tools work. ConditionReady and
// ConditionAvailable are two more.
const (
	ConditionBootstrapConfigReady = "BootstrapConfigReady" // the Ready condition of the bootstrap object
	ConditionInfrastructureReady  = "InfrastructureReady"  // the Ready condition of the infrastructure object
	ConditionUpdating             = "Updating"             // the Machine is updated in place
	ConditionUpToDate             = "UpToDate"             // the Machine is as its MachineSet and MachineDeployment want it
	ConditionNodeReady            = "NodeReady"            // the Ready condition of the Node
	ConditionMachinesReady        = "MachinesReady"        // the Ready conditions of all Machines
	ConditionMachinesUpToDate     = "MachinesUpToDate"     // the UpToDate conditions of all Machines
	ConditionScalingUp            = "ScalingUp"            // fewer Machines exist than desired
	ConditionScalingDown          = "ScalingDown"          // more Machines exist than desired
	ConditionRemediating          = "Remediating"          // unhealthy Machines are being replaced
	ConditionDeleting             = "Deleting"             // the object is being deleted; the reason is the stage
	ConditionPaused               = "Paused"               // the object or its Cluster is paused, so nothing is done
	ConditionContested            = "Contested"            // another writer undoes what is written, so it is written rarely; absent before

	ConditionHealthCheckSucceeded = "HealthCheckSucceeded" // of a Machine, written by a MachineHealthCheck
	ConditionOwnerRemediated      = "OwnerRemediated"      // of an unhealthy Machine, written by its owner
	ConditionExternallyRemediated = "ExternallyRemediated" // of a Machine: how far the object is that remediates it
	ConditionRemediationAllowed   = "RemediationAllowed"   // of a MachineHealthCheck: unhealthy Machines are remediated
)

// Reasons of conditions that several kinds have. They are Cluster API's.
const (
	ReasonReady                 = "Ready"                 // everything that the condition sums up is ready
	ReasonNotReady              = "NotReady"              // something that the condition sums up is not ready; the message names it
	ReasonReadyUnknown          = "ReadyUnknown"          // something that the condition sums up is not known
	ReasonAvailable             = "Available"             // ready for minReadySeconds, or as many Machines as the strategy requires are
	ReasonUpToDate              = "UpToDate"              // nothing has to be replaced or updated
	ReasonNotUpToDate           = "NotUpToDate"           // the message names what differs from the template
	ReasonDataSecretProvided    = "DataSecretProvided"    // spec.bootstrap.dataSecretName was set by a user, without a bootstrap object
	ReasonDoesNotExist          = "ObjectDoesNotExist"    // the referenced object does not exist, or nothing is referenced
	ReasonDeleted               = "ObjectDeleted"         // the referenced object existed and was deleted
	ReasonInternalError         = "InternalError"         // an error that the log of the manager names
	ReasonInspectionFailed      = "InspectionFailed"      // the object or the Node could not be read yet
	ReasonConnectionDown        = "ConnectionDown"        // the workload cluster has not answered for a while
	ReasonNoReplicas            = "NoReplicas"            // there are no Machines
	ReasonScalingUp             = "ScalingUp"             // Machines are being created
	ReasonUpdating              = "Updating"              // an update of the Machine is in progress
	ReasonScalingBlocked        = "ScalingBlocked"        // Machines are to be created, and cannot be; the message has the cause
	ReasonNotScalingUp          = "NotScalingUp"          // no Machine has to be created
	ReasonScalingDown           = "ScalingDown"           // Machines are being deleted
	ReasonNotScalingDown        = "NotScalingDown"        // no Machine has to be deleted
	ReasonWaitingForReplicasSet = "WaitingForReplicasSet" // spec.replicas is not set
	ReasonRemediating           = "Remediating"           // Machines are being remediated; the message names them
	ReasonNotRemediating        = "NotRemediating"        // no Machine is being remediated
	ReasonPaused                = "Paused"                // the message names the annotation or the Cluster that pauses the object
	ReasonNotPaused             = "NotPaused"             // neither the object nor its Cluster is paused
	ReasonWritesUndone          = "WritesUndone"          // the message names the fields, their object and, if known, the other writer
	ReasonClusterChanged        = "ClusterChanged"        // the object names another Cluster than before; it has to be changed back
	ReasonNotContested          = "NotContested"          // no other writer undoes what is written
	ReasonDeleting              = "Deleting"              // the object is being deleted
	ReasonNotDeleting           = "NotDeleting"           // the object is not being deleted
)

// Reasons of ConditionOwnerRemediated. They are Cluster API's. A health check writes the first one, and owners the others.
const (
	ReasonWaitingForRemediation = "WaitingForRemediation" // the owner of the Machine has to replace it
	ReasonCannotBeRemediated    = "CannotBeRemediated"    // the owner does not replace the Machine; the message says why
	ReasonRemediationDeferred   = "RemediationDeferred"   // the owner replaces the Machine later; the message says when
	ReasonMachineDeleting       = "MachineDeleting"       // the owner has deleted the Machine, and creates another one
)

// Reasons of the condition Deleting that name the stages of a deletion. They are Cluster API's.
const (
	ReasonDrainingNode                     = "DrainingNode"                     // Pods leave the Node; the message names those that cannot
	ReasonWaitingForInfrastructureDeletion = "WaitingForInfrastructureDeletion" // its provider deletes the infrastructure object
	ReasonWaitingForBootstrapDeletion      = "WaitingForBootstrapDeletion"      // the provider deletes the bootstrap object
	ReasonDeletingNode                     = "DeletingNode"                     // the Node is being deleted
	ReasonDeletionCompleted                = "DeletionCompleted"                // all of the Machine is gone, and its finalizer is removed
)

// Reasons for problems that Cluster API only logs as errors, and that a person can fix. Those about referenced objects are in package
// contract/pass.
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
