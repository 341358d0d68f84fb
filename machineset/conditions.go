package machineset

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a MachineSet. They are Cluster API's, so that its dashboards work.
const (
	ConditionMachinesReady    = "MachinesReady"
	ConditionMachinesUpToDate = "MachinesUpToDate"
	ConditionScalingUp        = "ScalingUp"
	ConditionScalingDown      = "ScalingDown"
	ConditionRemediating      = "Remediating"
	ConditionDeleting         = "Deleting"
	ConditionPaused           = "Paused"
)

// Conditions of a Machine that are read here and that package contract does not name.
const (
	machineUpToDate             = "UpToDate"
	machineNodeReady            = "NodeReady"
	machineDeleting             = "Deleting"
	machineHealthCheckSucceeded = "HealthCheckSucceeded"
	machineOwnerRemediated      = "OwnerRemediated"
)

// Reasons of conditions that Cluster API uses too.
const (
	ReasonReady                 = "Ready"
	ReasonNotReady              = "NotReady"
	ReasonReadyUnknown          = "ReadyUnknown"
	ReasonUpToDate              = "UpToDate"
	ReasonNotUpToDate           = "NotUpToDate"
	ReasonUpToDateUnknown       = "UpToDateUnknown"
	ReasonNoReplicas            = "NoReplicas"
	ReasonScalingUp             = "ScalingUp"
	ReasonNotScalingUp          = "NotScalingUp"
	ReasonScalingDown           = "ScalingDown"
	ReasonNotScalingDown        = "NotScalingDown"
	ReasonWaitingForReplicasSet = "WaitingForReplicasSet"
	ReasonRemediating           = "Remediating"
	ReasonNotRemediating        = "NotRemediating"
	ReasonDeleting              = "Deleting"
	ReasonNotDeleting           = "NotDeleting"
	ReasonPaused                = "Paused"
	ReasonNotPaused             = "NotPaused"
	ReasonInternalError         = "InternalError"
)

// ReasonMachineDeletionFailed is the reason of the condition ScalingDown while the API server refuses to delete a Machine.
const ReasonMachineDeletionFailed = "MachineDeletionFailed"

// seeLogs is the message of a condition about an error that a person cannot fix by changing an object.
const seeLogs = "Please check controller logs for errors"

// maxMessageLength bounds messages, which repeat what others wrote: one that the schema refuses, with more than 32768, would have the
// whole status refused.
const maxMessageLength = 8192

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	if len(message) > maxMessageLength {
		message = strings.ToValidUTF8(message[:maxMessageLength], "") + " ..."
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func findCondition(in []metav1.Condition, kind string) (metav1.Condition, bool) {
	at := slices.IndexFunc(in, func(c metav1.Condition) bool { return c.Type == kind })
	if at < 0 {
		return metav1.Condition{}, false
	}
	return in[at], true
}

func says(in []metav1.Condition, kind string, status metav1.ConditionStatus) bool {
	for i := range in {
		if in[i].Type == kind {
			return in[i].Status == status
		}
	}
	return false
}
