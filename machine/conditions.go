package machine

import (
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
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
	ConditionNodeHealthy = "NodeHealthy"
	ConditionUpdating    = "Updating"
)

// Reasons of conditions that Cluster API uses too.
const (
	ReasonNotYetReported    = "NotYetReported"
	ReasonNodeReady         = "NodeReady"
	ReasonNodeNotReady      = "NodeNotReady"
	ReasonNodeReadyUnknown  = "NodeReadyUnknown"
	ReasonNodeHealthy       = "NodeHealthy"
	ReasonNodeNotHealthy    = "NodeNotHealthy"
	ReasonNodeHealthUnknown = "NodeHealthyUnknown"
	ReasonNodeDeleted       = "NodeDeleted"
	ReasonNodeDoesNotExist  = "NodeDoesNotExist"

	ReasonWaitingForMinReadySeconds = "WaitingForMinReadySeconds"
	ReasonUpdating                  = "Updating"
	ReasonNotUpdating               = "NotUpdating"
	ReasonInPlaceUpdating           = "InPlaceUpdating"
	ReasonInPlaceUpdateFailed       = "InPlaceUpdateFailed"

	ReasonWaitingForPreDrainHook     = "WaitingForPreDrainHook"
	ReasonWaitingForVolumeDetach     = "WaitingForVolumeDetach"
	ReasonWaitingForPreTerminateHook = "WaitingForPreTerminateHook"
)

// Reasons for problems that Cluster API only logs as errors. A person can fix each of them, and the Machine continues without further
// action. Those about referenced objects are in package contract/external.
const (
	// ReasonProviderIDMissing: the infrastructure is provisioned but has no provider ID, or one that names no instance.
	ReasonProviderIDMissing = "ProviderIDMissing"
	// ReasonInfrastructureNotReported: there is no StepInfrastructure, and no step has called Scope.SetInfrastructureReady.
	ReasonInfrastructureNotReported = "InfrastructureNotReported"
)

// problems are the reasons that cause a Warning event when a condition changes to them. A missing object is a problem only while the Machine
// is not being deleted.
func problems(deleting bool) []string {
	all := append(pass.Problems(), ReasonProviderIDMissing, ReasonInvalidAnnotation)
	if !deleting {
		all = append(all, contract.ReasonDeleted, ReasonNodeDeleted)
	}
	return all
}

// notReported is the message of a condition that has not been set.
const notReported = "Condition not yet reported"
