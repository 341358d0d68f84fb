package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// flush writes the decisions of the pass, and records events after the write. What a failed pass has to tell is told by the one that
// repeats it.
func flush(ctx context.Context, s *Scope, err error) error {
	s.failed = err != nil
	if !s.Paused() {
		s.recordDeletion()
	}
	err = s.Flush(ctx, engine.Writing[contract.MachineUpdate]{
		Observes: s.observes(), AtOnce: s.urgent,
		Wrote: func(u contract.MachineUpdate, _, status bool) {
			if status {
				s.wroteStatus = true
				s.Record(engine.ConditionEvents(s.Stored, u.Conditions, problems(s.Deleting()))...)
			}
		},
	})
	s.Record(s.storedEvents()...)
	if s.undone = engine.Undone(err) != nil; err == nil || s.undone {
		err = errors.Join(err, s.checkKept())
	}
	if err == nil {
		s.Record(s.memory.tells(s.told, s.Deleting())...)
	}
	return err
}

// observes reports whether this pass has evaluated the whole Machine: a pass that failed or found the Machine paused has not. Each
// condition still has its own observed generation. Rule: Cluster API's Machine controller.
func (s *Scope) observes() bool { return !s.failed && !s.Paused() }

// storedEvents returns the events about the Node that the writes of this pass have recorded as the Machine's, or as drained. Some layouts
// record the Node in the metadata, and then the write of the status in a later pass finds it recorded already. A webhook may prune it.
func (s *Scope) storedEvents() []engine.Event {
	if !s.Written() {
		return nil
	}
	var all []engine.Event
	var have contract.MachineState
	if node, set := s.Update.Node.Value(); set && s.nodeIsNew && node.Name != "" &&
		s.env.kind.Adapter.Read(s.Answer(), &have) == nil && have.Node.Name == node.Name {
		all = append(all, engine.Event{Kind: corev1.EventTypeNormal, Reason: EventNodeMatched, Action: actionMatchNode, Note: node.Name})
	}
	if slices.Contains(s.ended, contract.StageDrain) {
		all = append(all, engine.Event{Kind: corev1.EventTypeNormal, Reason: EventNodeDrained, Action: actionDrainNode,
			Note: fmt.Sprintf("success draining Machine's node %q", s.State.Node.Name)})
	}
	return all
}

// tell adds an event of this pass. Use it for completed actions and for final decisions: it is recorded at the end of the pass. An event
// that every pass adds is recorded when the first of them adds it.
func (s *Scope) tell(kind, reason, action, note string) {
	if e := (engine.Event{Kind: kind, Reason: reason, Action: action, Note: note}); !slices.Contains(s.told, e) {
		s.told = append(s.told, e)
	}
}
