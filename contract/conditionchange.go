package contract

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ChangedConditions returns the conditions of want that differ from have, with the given observed generation. The transition time changes
// only with the status. It is the time in want, such as that of a mirrored object, or else now, in whole seconds. A time in have that
// [IsAhead] of now comes from a wrong clock and is replaced, because durations that count from it, such as minReadySeconds, would end that
// much later. Messages that differ only in what [SteadyText] removes are equal: otherwise each attempt of a failing call would cause a
// write. Neither list is changed or retained. Rule: metav1.Condition.
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

// SteadyText returns the text of an error without the parts that differ between attempts of the same call: the local address of a
// connection, whose port is new each time, and the query of a URL, which holds versions and timeouts. Sources: net.OpError, url.Error.
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

// Condition types that several kinds have. They are Cluster API's, so that its dashboards and tools work. See also ConditionReady and
// ConditionAvailable.
const (
	ConditionBootstrapConfigReady = "BootstrapConfigReady" // the Ready condition of the bootstrap object
	ConditionInfrastructureReady  = "InfrastructureReady"  // the Ready condition of the infrastructure object
	ConditionUpdating             = "Updating"             // the Machine is updated in place
	ConditionUpToDate             = "UpToDate"             // the Machine matches its MachineSet and MachineDeployment
	ConditionNodeReady            = "NodeReady"            // the Ready condition of the Node
	ConditionMachinesReady        = "MachinesReady"        // the Ready conditions of all Machines
	ConditionMachinesUpToDate     = "MachinesUpToDate"     // the UpToDate conditions of all Machines
	ConditionScalingUp            = "ScalingUp"            // fewer Machines exist than desired
	ConditionScalingDown          = "ScalingDown"          // more Machines exist than desired
	ConditionRemediating          = "Remediating"          // unhealthy Machines are being replaced
	ConditionDeleting             = "Deleting"             // the object is being deleted; the reason names the stage
	ConditionPaused               = "Paused"               // the object or its Cluster is paused, so nothing is done
	ConditionContested            = "Contested"            // another writer reverts writes, so writes are rare; absent otherwise

	ConditionHealthCheckSucceeded = "HealthCheckSucceeded" // of a Machine, written by a MachineHealthCheck
	ConditionOwnerRemediated      = "OwnerRemediated"      // of an unhealthy Machine, written by its owner
	ConditionExternallyRemediated = "ExternallyRemediated" // of a Machine: the progress of the object that remediates it
	ConditionRemediationAllowed   = "RemediationAllowed"   // of a MachineHealthCheck: unhealthy Machines are remediated
)

// Reasons of conditions that several kinds have. They are Cluster API's.
const (
	ReasonReady                 = "Ready"                 // everything that the condition summarizes is ready
	ReasonNotReady              = "NotReady"              // something that the condition summarizes is not ready; the message names it
	ReasonReadyUnknown          = "ReadyUnknown"          // the readiness of something that the condition summarizes is unknown
	ReasonAvailable             = "Available"             // ready for minReadySeconds, or enough Machines for the strategy are available
	ReasonUpToDate              = "UpToDate"              // nothing has to be replaced or updated
	ReasonNotUpToDate           = "NotUpToDate"           // the message names what differs from the template
	ReasonDataSecretProvided    = "DataSecretProvided"    // a user set spec.bootstrap.dataSecretName, without a bootstrap object
	ReasonDoesNotExist          = "ObjectDoesNotExist"    // the referenced object does not exist, or there is no reference
	ReasonDeleted               = "ObjectDeleted"         // the referenced object existed and was deleted
	ReasonInternalError         = "InternalError"         // an error; see the log of the manager
	ReasonInspectionFailed      = "InspectionFailed"      // the object or the Node could not be read yet
	ReasonConnectionDown        = "ConnectionDown"        // the workload cluster has not answered for a while
	ReasonNoReplicas            = "NoReplicas"            // there are no Machines
	ReasonScalingUp             = "ScalingUp"             // Machines are being created
	ReasonUpdating              = "Updating"              // an update of the Machine is in progress
	ReasonScalingBlocked        = "ScalingBlocked"        // Machines cannot be created; the message has the cause
	ReasonNotScalingUp          = "NotScalingUp"          // no Machine has to be created
	ReasonScalingDown           = "ScalingDown"           // Machines are being deleted
	ReasonNotScalingDown        = "NotScalingDown"        // no Machine has to be deleted
	ReasonWaitingForReplicasSet = "WaitingForReplicasSet" // spec.replicas is not set
	ReasonRemediating           = "Remediating"           // Machines are being remediated; the message names them
	ReasonNotRemediating        = "NotRemediating"        // no Machine is being remediated
	ReasonPaused                = "Paused"                // the message names the annotation or the Cluster that pauses the object
	ReasonNotPaused             = "NotPaused"             // neither the object nor its Cluster is paused
	ReasonWritesUndone          = "WritesUndone"          // the message names the fields, the object and, if known, the other writer
	ReasonClusterChanged        = "ClusterChanged"        // the object refers to another Cluster than before; change it back
	ReasonNotContested          = "NotContested"          // no other writer reverts writes
	ReasonDeleting              = "Deleting"              // the object is being deleted
	ReasonNotDeleting           = "NotDeleting"           // the object is not being deleted
)

// Reasons of ConditionOwnerRemediated. They are Cluster API's. A health check writes the first one, owners write the others.
const (
	ReasonWaitingForRemediation = "WaitingForRemediation" // the owner of the Machine must replace it
	ReasonCannotBeRemediated    = "CannotBeRemediated"    // the owner does not replace the Machine; the message has the reason
	ReasonRemediationDeferred   = "RemediationDeferred"   // the owner replaces the Machine later; the message has the time
	ReasonMachineDeleting       = "MachineDeleting"       // the owner has deleted the Machine, and creates another one
)

// Reasons of the condition Deleting for the stages of a deletion. They are Cluster API's.
const (
	ReasonDrainingNode                     = "DrainingNode"                     // Pods leave the Node; the message names the Pods that block
	ReasonWaitingForInfrastructureDeletion = "WaitingForInfrastructureDeletion" // the provider is deleting the infrastructure object
	ReasonWaitingForBootstrapDeletion      = "WaitingForBootstrapDeletion"      // the provider is deleting the bootstrap object
	ReasonDeletingNode                     = "DeletingNode"                     // the Node is being deleted
	ReasonDeletionCompleted                = "DeletionCompleted"                // everything of the Machine is gone; the finalizer is removed
)

// Reasons for problems that Cluster API only logs as errors, and that a person can fix. Reasons about referenced objects are in package
// contract/pass.
const (
	// ReasonOwnedByAnother: another controller owns the referenced object.
	ReasonOwnedByAnother = "OwnedByAnother"
	// ReasonDataSecretNameMissing: the bootstrap data exists, but the bootstrap object does not name its Secret.
	ReasonDataSecretNameMissing = "DataSecretNameMissing"
	// ReasonAmbiguousNode: several Nodes have the same provider ID.
	ReasonAmbiguousNode = "AmbiguousNode"
	// ReasonNodeClaimed: several objects claim the same Node.
	ReasonNodeClaimed = "NodeClaimed"
	// ReasonClusterDoesNotExist: the API server has confirmed that the Cluster of the object does not exist. Whether the object is paused is
	// unknown.
	ReasonClusterDoesNotExist = "ClusterDoesNotExist"
)
