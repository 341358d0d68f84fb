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

// Condition types of a Machine. Types, reasons and messages are those of Cluster API's v1beta2 Machine, so that its dashboards and tools
// work; problems that it only logs have their own reasons here (external.ReasonCRDNotFound and those beside it). From its first
// status on, a Machine that is not paused has
//
//   - BootstrapConfigReady and InfrastructureReady, which mirror the Ready condition of the referenced objects. Without StepInfrastructure,
//     and with the default StepPhase, InfrastructureReady reports that no step has called Scope.SetInfrastructureReady;
//   - NodeReady and NodeHealthy, of the Node and by Policy.Health, or what the Machine waits for before there is a Node;
//   - Updating, by Policy.Updating; while it is True the phase is Updating too;
//   - Deleting, which names the stage of a deletion, and Paused, which is Unknown when the Cluster does not exist or cannot be read because
//     of a problem that a person can fix;
//   - Ready, which summarizes Deleting, Updating, BootstrapConfigReady, InfrastructureReady, NodeHealthy, HealthCheckSucceeded if it is
//     present, and the readiness gates of the Machine: problems first, then unknown conditions. When a deletion lasts for more than 15
//     minutes Ready reports that, and after 5 minutes of draining what delays the drain. A failed step of your own keeps a Machine from
//     becoming Ready, with reason InternalError and the first text of its error; a Machine that is Ready stays Ready, with that text;
//   - Available, when it has been ready for spec.minReadySeconds;
//   - UpToDate, when Ports.RolloutOf finds its MachineSet and its MachineDeployment. Otherwise another controller may set it.
//
// A Warning event reports the begin of a problem, and a Normal event an action: one for each transition, also when two conditions report
// the same.
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

// Reasons for problems that Cluster API only logs as errors. A person can fix each of them, and the Machine continues without further
// action. Those about referenced objects are in package contract/external.
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
	// ReasonNodeClaimed: another Machine names the same Node, and has recorded it, or neither Machine has recorded it.
	ReasonNodeClaimed = "NodeClaimed"
)

// troubles are the reasons that cause a warning event when a condition changes to them. A missing object is a problem only while the
// Machine is not being deleted.
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

// seeLogs is the message of a condition about an error that a person cannot fix by changing an object. The text of such an error may
// differ in every attempt, which would cause a write each time; it is in the log.
const seeLogs = "Please check controller logs for errors"

// notReported is the message of a condition that has not been set.
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

// mirror copies the condition of a provider object to a condition of the Machine. fallback is used when the object has no such condition.
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

// maxMessageLength limits messages. The schema allows 32768 bytes; a lower limit keeps objects small.
const maxMessageLength = 8192

// isReason reports whether metav1.Condition allows a reason. A provider's older conditions may have any reason, and the API server rejects
// a whole status because of one invalid reason.
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
