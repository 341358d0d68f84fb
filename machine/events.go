package machine

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// Reasons and actions of the events that the reconciler records on a Machine. An event is recorded after the write that it is about, so
// that a repeated pass does not repeat it.
const (
	EventNodeMatched   = "SuccessfulSetNodeRef"
	EventNodeDrained   = "SuccessfulDrainNode"
	EventInterruptible = "SuccessfulSetInterruptibleNodeLabel"
	actionMatchNode    = "MatchNode"
	actionDrainNode    = "DrainNode"
	actionReconcile    = "Reconcile"
	actionLabelNode    = "LabelNode"
	maxEventNoteLength = 1000 // events.k8s.io/v1 allows 1,024 bytes
)

type event struct{ kind, reason, action, note string }

// conditionEvents returns the events of conditions that change to a problem. Two conditions with the same message, such as NodeReady and
// NodeHealthy when the Node is gone, cause one event.
func conditionEvents(stored, written []metav1.Condition, deleting bool) []event {
	var all []event
	bad := troubles(deleting)
	told := map[string]bool{}
	for _, c := range written {
		old, found := findCondition(stored, c.Type)
		same := c.Reason + "\x00" + c.Message
		if !slices.Contains(bad, c.Reason) || (found && old.Reason == c.Reason && old.Status == c.Status) || told[same] {
			continue
		}
		told[same] = true
		all = append(all, event{corev1.EventTypeWarning, c.Reason, actionReconcile, c.Type + ": " + c.Message})
	}
	return all
}

// matchEvents returns the events of a Node that is recorded as the Machine's.
func matchEvents(u contract.MachineUpdate) []event {
	if node, set := u.Node.Value(); set && node.Name != "" {
		return []event{{corev1.EventTypeNormal, EventNodeMatched, actionMatchNode, node.Name}}
	}
	return nil
}

// nodeRecorded returns the events of a Node that a write of the metadata has recorded, as some layouts do: a status write in a later pass
// would find the Node recorded already.
func (s *Scope) nodeRecorded(u contract.MachineUpdate) []event {
	var have contract.MachineState
	node, set := u.Node.Value()
	if !set || s.env.kind.Adapter.Read(s.answer, &have) != nil || have.Node.Name != node.Name {
		return nil
	}
	s.matchTold = true
	return matchEvents(u)
}

// drained returns the events of a Node whose drain is recorded as completed, unless they were recorded when it ended.
func (s *Scope) drained(u contract.MachineUpdate) []event {
	if s.recorded {
		return nil
	}
	return drainEvents(u, s.State.Node.Name)
}

// drainEvents returns the events of a Node whose drain is completed.
func drainEvents(u contract.MachineUpdate, node string) []event {
	if uid, set := u.DrainedNode.Value(); set && uid != "" {
		return []event{{corev1.EventTypeNormal, EventNodeDrained, actionDrainNode, fmt.Sprintf("success draining Machine's node %q", node)}}
	}
	return nil
}

// tell adds an event of this pass. Use it for completed actions and for final decisions: it is recorded when the Machine was written, or
// at the end of a pass that has nothing to write. A pass that delays its status keeps the event for the next. An event that every pass
// adds is recorded when the first of them adds it.
func (s *Scope) tell(kind, reason, action, note string) {
	if e := (event{kind, reason, action, note}); !slices.Contains(s.told, e) {
		s.told = append(s.told, e)
	}
}

// telling are the events that passes have added for one Machine.
type telling struct {
	// last are those of the last pass, and due those that are not recorded yet.
	last, due []event
}

// tells adds the events of one pass, and returns those to record now. recordable is false while the status of the pass is delayed.
func (t telling) tells(told []event, recordable bool) (telling, []event) {
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

// record records events now.
func (s *Scope) record(all []event) {
	recorder := s.env.options.Recorder
	if recorder == nil {
		return
	}
	for _, e := range all {
		recorder.Eventf(s.Object, nil, e.kind, e.reason, e.action, "%s", bounded(e.note, maxEventNoteLength))
	}
}
