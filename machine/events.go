package machine

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

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
		return []pass.Event{{Kind: corev1.EventTypeNormal, Reason: EventNodeDrained, Action: actionDrainNode, Note: fmt.Sprintf("success draining Machine's node %q", node)}}
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
