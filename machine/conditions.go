package machine

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// Condition types of a Machine. They are Cluster API's, so that its dashboards work.
const (
	ConditionAvailable            = "Available"
	ConditionReady                = "Ready"
	ConditionUpToDate             = "UpToDate"
	ConditionBootstrapConfigReady = "BootstrapConfigReady"
	ConditionInfrastructureReady  = "InfrastructureReady"
	ConditionNodeHealthy          = "NodeHealthy"
	ConditionNodeReady            = "NodeReady"
	// ConditionHealthCheckSucceeded is written by a MachineHealthCheck and only read here.
	ConditionHealthCheckSucceeded = "HealthCheckSucceeded"
	ConditionUpdating             = "Updating"
	ConditionPaused               = "Paused"
	ConditionDeleting             = "Deleting"
)

// Reasons of conditions that Cluster API uses too.
const (
	ReasonReady              = "Ready"
	ReasonNotReady           = "NotReady"
	ReasonReadyUnknown       = "ReadyUnknown"
	ReasonDataSecretProvided = "DataSecretProvided"
	ReasonDoesNotExist       = "ObjectDoesNotExist"
	ReasonDeleted            = "ObjectDeleted"
	ReasonInternalError      = "InternalError"
	ReasonNotYetReported     = "NotYetReported"
	ReasonInspectionFailed   = "InspectionFailed"
	ReasonConnectionDown     = "ConnectionDown"
	ReasonNodeReady          = "NodeReady"
	ReasonNodeNotReady       = "NodeNotReady"
	ReasonNodeReadyUnknown   = "NodeReadyUnknown"
	ReasonNodeHealthy        = "NodeHealthy"
	ReasonNodeNotHealthy     = "NodeNotHealthy"
	ReasonNodeHealthUnknown  = "NodeHealthyUnknown"
	ReasonNodeDeleted        = "NodeDeleted"
	ReasonNodeDoesNotExist   = "NodeDoesNotExist"
	ReasonNotDeleting        = "NotDeleting"
	ReasonDeleting           = "Deleting"
	ReasonPaused             = "Paused"
	ReasonNotPaused          = "NotPaused"

	ReasonAvailable                 = "Available"
	ReasonWaitingForMinReadySeconds = "WaitingForMinReadySeconds"
	ReasonUpToDate                  = "UpToDate"
	ReasonNotUpToDate               = "NotUpToDate"
	ReasonUpdating                  = "Updating"
	ReasonNotUpdating               = "NotUpdating"
	ReasonInPlaceUpdating           = "InPlaceUpdating"
	ReasonInPlaceUpdateFailed       = "InPlaceUpdateFailed"

	ReasonWaitingForPreDrainHook           = "WaitingForPreDrainHook"
	ReasonDrainingNode                     = "DrainingNode"
	ReasonWaitingForVolumeDetach           = "WaitingForVolumeDetach"
	ReasonWaitingForPreTerminateHook       = "WaitingForPreTerminateHook"
	ReasonWaitingForInfrastructureDeletion = "WaitingForInfrastructureDeletion"
	ReasonWaitingForBootstrapDeletion      = "WaitingForBootstrapDeletion"
	ReasonDeletingNode                     = "DeletingNode"
	ReasonDeletionCompleted                = "DeletionCompleted"
)

// Reasons for trouble that Cluster API reports as an error in its log. A person can mend each of them, and the Machine
// goes on by itself when it is mended. Those about what a Machine refers to are in package contract/external.
const (
	// ReasonOwnedByAnother: another controller owns the referenced object.
	ReasonOwnedByAnother = "OwnedByAnother"
	// ReasonProviderIDMissing: the infrastructure is provisioned but has no provider ID, or one that names no instance.
	ReasonProviderIDMissing = "ProviderIDMissing"
	// ReasonInfrastructureNotReported: there is no StepInfrastructure, and no step has called Scope.SetInfrastructureReady.
	ReasonInfrastructureNotReported = "InfrastructureNotReported"
	// ReasonDataSecretNameMissing: the bootstrap data was created, but its Secret is not named.
	ReasonDataSecretNameMissing = "DataSecretNameMissing"
	// ReasonAmbiguousNode: several Nodes carry the Machine's provider ID.
	ReasonAmbiguousNode = "AmbiguousNode"
	// ReasonNodeClaimed: another Machine names the same Node, and has recorded it or nobody has.
	ReasonNodeClaimed = "NodeClaimed"
)

// troubles are the reasons that deserve a warning event when a condition takes them. That something is gone is trouble only while the
// Machine is to stay.
func troubles(deleting bool) []string {
	gone := []string{ReasonDeleted, ReasonNodeDeleted}
	if deleting {
		gone = nil
	}
	return append([]string{
		external.ReasonCRDNotFound, external.ReasonContractLabelMissing, external.ReasonContractViolation, external.ReasonVersionNotServed,
		ReasonOwnedByAnother, ReasonProviderIDMissing, ReasonDataSecretNameMissing, ReasonAmbiguousNode, ReasonNodeClaimed,
		ReasonClusterDoesNotExist, ReasonInvalidAnnotation,
	}, gone...)
}

// seeLogs is what a condition says about an error that no person can mend by changing an object. The error itself may be another
// in every attempt, and would be written each time; it is in the log.
const seeLogs = "Please check controller logs for errors"

// notReported is what is said of a condition that nobody has set.
const notReported = "Condition not yet reported"

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

// mirror copies what a provider object says of itself into a condition of the Machine. fallback is used when it says
// nothing.
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

// maxMessageLength bounds messages; the schema allows 32768, but etcd and readers are spared.
const maxMessageLength = 8192

// isReason tells whether metav1.Condition allows a reason. A provider's older conditions may hold anything, and one bad reason
// would have the whole status refused.
func isReason(reason string) bool {
	return len(validation.ValidateCondition(metav1.Condition{
		Type: ConditionReady, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Unix(1, 0),
	}, field.NewPath("condition"))) == 0
}

// bounded cuts a text that somebody else wrote to a length that the API server accepts.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + " ..."
}
