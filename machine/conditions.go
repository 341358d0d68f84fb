package machine

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

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

// problems are the reasons that cause a Warning event when a condition changes to them. A missing object is a problem only while
// the Machine is not being deleted.
func problems(deleting bool) []string {
	all := append(pass.Problems(), ReasonProviderIDMissing, ReasonInvalidAnnotation)
	if !deleting {
		all = append(all, contract.ReasonDeleted, ReasonNodeDeleted)
	}
	return all
}

// notReported is the message of a condition that has not been set.
const notReported = "Condition not yet reported"

// Reasons and actions of the events that the reconciler records on a Machine. An event is recorded after the write that it is about, so
// that a repeated pass does not repeat it.
const (
	EventNodeMatched   = "SuccessfulSetNodeRef"
	EventNodeDrained   = "SuccessfulDrainNode"
	EventInterruptible = "SuccessfulSetInterruptibleNodeLabel"
	actionMatchNode    = "MatchNode"
	actionDrainNode    = "DrainNode"
	actionLabelNode    = "LabelNode"
)

// matchEvents returns the events of a Node that is recorded as the Machine's.
func matchEvents(u contract.MachineUpdate) []pass.Event {
	if node, set := u.Node.Value(); set && node.Name != "" {
		return []pass.Event{{Kind: corev1.EventTypeNormal, Reason: EventNodeMatched, Action: actionMatchNode, Note: node.Name}}
	}
	return nil
}

// nodeRecorded returns the events of a Node that a write of the metadata has recorded, as some layouts do: a status write in a later pass
// would find the Node recorded already.
func (s *Scope) nodeRecorded(u contract.MachineUpdate) []pass.Event {
	var have contract.MachineState
	node, set := u.Node.Value()
	if !set || s.env.kind.Adapter.Read(s.Answer(), &have) != nil || have.Node.Name != node.Name {
		return nil
	}
	s.matchTold = true
	return matchEvents(u)
}

// drained returns the events of a Node whose drain is recorded as completed, unless they were recorded when it ended.
func (s *Scope) drained(u contract.MachineUpdate) []pass.Event {
	if s.recorded {
		return nil
	}
	return drainEvents(u, s.State.Node.Name)
}

// drainEvents returns the events of a Node whose drain is completed.
func drainEvents(u contract.MachineUpdate, node string) []pass.Event {
	if uid, set := u.DrainedNode.Value(); set && uid != "" {
		return []pass.Event{{Kind: corev1.EventTypeNormal, Reason: EventNodeDrained, Action: actionDrainNode,
			Note: fmt.Sprintf("success draining Machine's node %q", node)}}
	}
	return nil
}

// tell adds an event of this pass. Use it for completed actions and for final decisions: it is recorded when the Machine was written, or
// at the end of a pass that has nothing to write. A pass that delays its status keeps the event for the next. An event that every pass
// adds is recorded when the first of them adds it.
func (s *Scope) tell(kind, reason, action, note string) {
	if e := (pass.Event{Kind: kind, Reason: reason, Action: action, Note: note}); !slices.Contains(s.told, e) {
		s.told = append(s.told, e)
	}
}

// telling are the events that passes have added for one Machine.
type telling struct {
	// last are those of the last pass, and due those that are not recorded yet.
	last, due []pass.Event
}

// tells adds the events of one pass, and returns those to record now. recordable is false while the status of the pass is delayed.
func (t telling) tells(told []pass.Event, recordable bool) (telling, []pass.Event) {
	due := slices.Clone(t.due)
	for _, e := range told {
		if !slices.Contains(t.last, e) && !slices.Contains(due, e) {
			due = append(due, e)
		}
	}
	if recordable {
		return telling{last: told}, due
	}
	return telling{last: told, due: due}, nil
}
