package contract

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ChangedConditions returns those of want that differ from have, ready to be written for a generation. A time of transition moves only
// with the status; it is the one that a condition brings along, say from the object that it mirrors, or else now, in whole seconds.
// One that [IsAhead] of now comes from a wrong clock: it begins anew, because what counts from it, such as minReadySeconds, would take that
// much longer.
// Messages that are equal but for what [SteadyText] leaves out are no difference: each attempt of a failing call would be a write.
// Neither list is changed or kept. Rule: metav1.Condition.
func ChangedConditions(have, want []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	var changed []metav1.Condition
	for i, c := range want {
		c.ObservedGeneration = generation
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = metav1.NewTime(now)
		}
		c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.UTC().Truncate(time.Second))
		if at := slices.IndexFunc(have, func(old metav1.Condition) bool { return old.Type == c.Type }); at >= 0 {
			old := have[at]
			kept := old.Status == c.Status && (!IsAhead(old.LastTransitionTime.Time, now) || IsAhead(c.LastTransitionTime.Time, now))
			if kept {
				c.LastTransitionTime = old.LastTransitionTime
			}
			if kept && old.Reason == c.Reason && SteadyText(old.Message) == SteadyText(c.Message) &&
				old.ObservedGeneration == generation {
				continue
			}
		}
		if changed == nil {
			changed = make([]metav1.Condition, 0, len(want)-i)
		}
		changed = append(changed, c)
	}
	return changed
}

// SteadyText returns the text of an error without what differs from one attempt of the same call to the next: the local address of a
// connection, whose port is a new one each time, and the query of a URL, which holds versions and timeouts. Sources: net.OpError,
// url.Error.
func SteadyText(text string) string {
	if !strings.Contains(text, "->") && !strings.Contains(text, "?") {
		return text
	}
	words := strings.Split(text, " ")
	for i, word := range words {
		if local, remote, found := strings.Cut(word, "->"); found && isAddress(local) {
			words[i] = remote
		}
		if address, query, found := strings.Cut(word, "?"); found && strings.HasPrefix(word, `"http`) {
			if end := strings.IndexByte(query, '"'); end >= 0 {
				words[i] = address + query[end:]
			}
		}
	}
	return strings.Join(words, " ")
}

func isAddress(text string) bool {
	_, err := netip.ParseAddrPort(text)
	return err == nil
}

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
