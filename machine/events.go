package machine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// Reasons and actions of the events that the reconciler records on a Machine. An event is recorded when the status that it
// tells of was written, so that a pass which is repeated does not repeat it.
const (
	EventNodeMatched   = "SuccessfulSetNodeRef"
	EventNodeDrained   = "SuccessfulDrainNode"
	actionMatchNode    = "MatchNode"
	actionDrainNode    = "DrainNode"
	actionReconcile    = "Reconcile"
	maxEventNoteLength = 1000 // events.k8s.io/v1 allows 1,024 bytes
)

type event struct{ kind, reason, action, note string }

// eventsOf are the events of a transition: of the conditions that came to say something bad, and of the stages that were
// reached.
func eventsOf(stored []metav1.Condition, update contract.MachineUpdate) []event {
	var all []event
	for _, c := range update.Conditions {
		old, found := findCondition(stored, c.Type)
		if slices.Contains(troubles(), c.Reason) && (!found || old.Reason != c.Reason || old.Status != c.Status) {
			all = append(all, event{corev1.EventTypeWarning, c.Reason, actionReconcile, c.Type + ": " + c.Message})
		}
	}
	if node, set := update.Node.Value(); set {
		all = append(all, event{corev1.EventTypeNormal, EventNodeMatched, actionMatchNode, node.Name})
	}
	if node, set := update.DrainedNode.Value(); set && node != "" {
		all = append(all, event{corev1.EventTypeNormal, EventNodeDrained, actionDrainNode, "every evictable pod has left the Node"})
	}
	return all
}

// tell adds an event of this pass. It is recorded when the status of the pass was written.
func (s *Scope) tell(kind, reason, action, note string) {
	s.told = append(s.told, event{kind, reason, action, note})
}

func (s *Scope) announce(update contract.MachineUpdate) {
	if s.recorded {
		update.DrainedNode, update.VolumesDetachedNode = contract.Change[types.UID]{}, contract.Change[types.UID]{}
	}
	s.record(append(eventsOf(s.stored, update), s.told...))
}

func (s *Scope) record(events []event) {
	recorder := s.env.options.Recorder
	if recorder == nil {
		return
	}
	for _, e := range events {
		recorder.Eventf(s.Object, nil, e.kind, e.reason, e.action, "%s", bounded(e.note, maxEventNoteLength))
	}
}
