package machinepool

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// Condition types of a pool. They are those that Cluster API has announced for MachinePools in v1beta2 and does not write, Paused
// aside; its code that sums up Clusters reads them already. ConditionReady and ConditionHealthCheckSucceeded are those of Machines.
const (
	ConditionAvailable            = "Available"
	ConditionBootstrapConfigReady = "BootstrapConfigReady"
	ConditionInfrastructureReady  = "InfrastructureReady"
	ConditionMachinesReady        = "MachinesReady"
	ConditionMachinesUpToDate     = "MachinesUpToDate"
	ConditionScalingUp            = "ScalingUp"
	ConditionScalingDown          = "ScalingDown"
	ConditionRemediating          = "Remediating"
	ConditionDeleting             = "Deleting"
	ConditionPaused               = "Paused"

	ConditionReady                = "Ready"
	ConditionHealthCheckSucceeded = "HealthCheckSucceeded"
	ConditionOwnerRemediated      = "OwnerRemediated"
)

// Reasons of conditions that Cluster API uses too.
const (
	ReasonAvailable             = "Available"
	ReasonNotAvailable          = "NotAvailable"
	ReasonWaitingForReplicasSet = "WaitingForReplicasSet"
	ReasonReady                 = "Ready"
	ReasonNotReady              = "NotReady"
	ReasonNoReplicas            = "NoReplicas"
	ReasonUpToDate              = "UpToDate"
	ReasonNotUpToDate           = "NotUpToDate"
	ReasonScalingUp             = "ScalingUp"
	ReasonNotScalingUp          = "NotScalingUp"
	ReasonScalingDown           = "ScalingDown"
	ReasonNotScalingDown        = "NotScalingDown"
	ReasonRemediating           = "Remediating"
	ReasonNotRemediating        = "NotRemediating"
	ReasonDataSecretProvided    = "DataSecretProvided"
	ReasonDoesNotExist          = "ObjectDoesNotExist"
	ReasonDeleted               = "ObjectDeleted"
	ReasonInternalError         = "InternalError"
	ReasonInspectionFailed      = "InspectionFailed"
	ReasonConnectionDown        = "ConnectionDown"
	ReasonPaused                = "Paused"
	ReasonNotPaused             = "NotPaused"
	ReasonNotDeleting           = "NotDeleting"
	ReasonDeleting              = "Deleting"
)

// Reasons of the condition Deleting that name its stages, in their order.
const (
	ReasonWaitingForMachineDeletion        = "WaitingForMachineDeletion"
	ReasonDrainingNode                     = "DrainingNode"
	ReasonWaitingForInfrastructureDeletion = "WaitingForInfrastructureDeletion"
	ReasonWaitingForBootstrapDeletion      = "WaitingForBootstrapDeletion"
	ReasonDeletingNode                     = "DeletingNode"
	ReasonDeletionCompleted                = "DeletionCompleted"
)

// Reasons for trouble that Cluster API reports as an error in its log. A person can mend each of them. Those about what a pool
// refers to are in package contract/external.
const (
	// ReasonOwnedByAnother: another controller owns the referenced object.
	ReasonOwnedByAnother = "OwnedByAnother"
	// ReasonDataSecretNameMissing: the bootstrap data was created, but its Secret is not named.
	ReasonDataSecretNameMissing = "DataSecretNameMissing"
	// ReasonAmbiguousNode: several Nodes carry the provider ID of one instance.
	ReasonAmbiguousNode = "AmbiguousNode"
	// ReasonNodeClaimed: another pool names the same instance, or a Machine claims a Node that is to leave.
	ReasonNodeClaimed = "NodeClaimed"
	// ReasonInstancesHeld: the provider lists instances none of which has a recorded Node, while those Nodes are Ready. Nothing is done
	// for that list until a person confirms it (ConfirmedInstancesAnnotation), or the Nodes have not been Ready for five minutes.
	ReasonInstancesHeld = "InstancesHeld"
	// ReasonMachineNameTaken: the InfraMachine of an instance gets no Machine, because another owner's Machine has its name.
	ReasonMachineNameTaken = "MachineNameTaken"
	// ReasonClusterDoesNotExist: the Cluster that the pool names does not exist, so the API server itself said.
	ReasonClusterDoesNotExist = "ClusterDoesNotExist"
)

// troubles are the reasons that deserve a warning event when a condition takes them.
func troubles() []string {
	return []string{
		external.ReasonCRDNotFound, external.ReasonContractLabelMissing, external.ReasonContractViolation, external.ReasonVersionNotServed,
		ReasonOwnedByAnother, ReasonDataSecretNameMissing, ReasonAmbiguousNode, ReasonNodeClaimed, ReasonMachineNameTaken,
		ReasonClusterDoesNotExist, ReasonInstancesHeld,
	}
}

// seeLogs is the message of a condition about an error that a person cannot fix by changing an object: the text of the error may differ in
// every attempt, and is in the log.
const seeLogs = "Please check controller logs for errors"

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func findCondition(in []metav1.Condition, kind string) (metav1.Condition, bool) {
	at := slices.IndexFunc(in, func(c metav1.Condition) bool { return c.Type == kind })
	if at < 0 {
		return metav1.Condition{}, false
	}
	return in[at], true
}

func isTrue(in []metav1.Condition, kind string) bool {
	c, _ := findCondition(in, kind)
	return c.Status == metav1.ConditionTrue
}

// mirror copies what a provider object says of itself into a condition of the pool. fallback is used when it says nothing.
func mirror(kind string, ready contract.Opt[metav1.Condition], fallback metav1.Condition) metav1.Condition {
	said, found := ready.Get()
	if !found {
		return fallback
	}
	mirrored := condition(kind, said.Status, said.Reason, said.Message)
	mirrored.LastTransitionTime = said.LastTransitionTime
	if mirrored.Status == metav1.ConditionTrue && mirrored.Reason == contract.ReasonNotReported {
		mirrored.Reason = ReasonReady
	}
	if !isReason(mirrored.Reason) {
		mirrored.Message = fmt.Sprintf("reason %q: %s", mirrored.Reason, mirrored.Message)
		mirrored.Reason = contract.ReasonInvalidCondition
	}
	return mirrored
}

// changedConditions returns those of want that are to be written, with messages of a bounded length.
func changedConditions(have, want []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	want = slices.Clone(want)
	for i := range want {
		want[i].Message = bounded(want[i].Message, maxMessageLength)
	}
	return contract.ChangedConditions(have, want, generation, now)
}

// maxMessageLength bounds messages; the schema allows 32768, but etcd and readers are spared.
const maxMessageLength = 8192

// isReason tells whether metav1.Condition allows a reason. One bad reason would have the whole status refused.
func isReason(reason string) bool {
	return len(validation.ValidateCondition(metav1.Condition{
		Type: ConditionReady, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Unix(1, 0),
	}, field.NewPath("condition"))) == 0
}

// bounded cuts a text from another component to a length that the API server accepts.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + " ..."
}

// maxNamed is how many names a message has; the others are a number.
const maxNamed = 5

// named joins names for a message, the first few of them.
func named(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, ... (%d more)", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}
