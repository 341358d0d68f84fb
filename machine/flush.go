package machine

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// flush writes the decisions of the pass, delays a status that is only intermediate, and records events after the write. What a failed
// pass has to tell is told by the one that repeats it.
func flush(ctx context.Context, s *Scope, err error) error {
	s.failed = err != nil
	s.forgetDeletion()
	err = s.Flush(ctx, engine.Writing[contract.MachineUpdate]{
		Observes: s.observes(),
		Urgent:   s.urgent,
		Settle:   s.settleFacts,
		Wrote: func(u contract.MachineUpdate, _, status bool) {
			if status {
				s.stores = true
				s.Record(engine.ConditionEvents(s.Stored, u.Conditions, problems(s.Deleting()))...)
			}
		},
	})
	s.Record(s.storedEvents()...)
	if err == nil {
		err = s.checkKept()
	}
	if err == nil {
		s.Record(newEvents(s.memory.told, s.told)...)
		s.memory.told = s.told
	}
	return err
}

// observes reports whether this pass has evaluated the whole Machine: a pass that failed or found the Machine paused has not. Each
// condition still has its own observed generation. Rule: Cluster API's Machine controller.
func (s *Scope) observes() bool { return !s.failed && !s.Paused() }

// settleFacts are what this package knows about a status that differs from the stored one.
func (s *Scope) settleFacts(main, status contract.MachineUpdate) (engine.SettleFacts, error) {
	forced, err := s.forcesStatus(status)
	ready, _ := engine.Find(s.Asserted, contract.ConditionReady)
	nodeReady, _ := engine.Find(s.Asserted, contract.ConditionNodeReady)
	return engine.SettleFacts{
		Urgent:      forced,
		Final:       ready.Status == metav1.ConditionTrue && main.ProviderID.Keeps() && main.DataSecretName.Keeps(),
		Expecting:   (!status.Node.Keeps() && nodeReady.Status != metav1.ConditionTrue) || s.drainEnds(),
		Fingerprint: engine.Fingerprint(s.State.Phase, s.Asserted),
	}, err
}

// drainEnds reports whether a drain has no pod left to wait for, and only confirms that no new pod was scheduled.
func (s *Scope) drainEnds() bool {
	return s.waiting != nil && s.waiting.Total == s.waiting.Ignored
}

// forcesStatus reports whether values that a step needs stored are in the status. Many are in annotations, and written with the metadata:
// then the status can wait.
func (s *Scope) forcesStatus(u contract.MachineUpdate) (bool, error) {
	if s.urgent && (len(s.told) > 0 || !s.Update.Finalizers.Keeps()) {
		return true, nil // recorded events, and the end of the deletion, are in the conditions
	}
	needed := s.env.frame.Members.Needed(u, s.urgent)
	if s.env.frame.Members.Empty(&needed) {
		return s.urgent, nil // the conditions have the required value
	}
	return s.WouldChangeStatus(needed)
}

// storedEvents returns the events about the Node that the writes of this pass have recorded as the Machine's, or as drained. Some layouts
// record the Node in the metadata, and then the write of the status in a later pass finds it recorded already.
func (s *Scope) storedEvents() []engine.Event {
	if !s.Written() {
		return nil
	}
	var all []engine.Event
	var have contract.MachineState
	if node, set := s.Update.Node.Value(); set && node.Name != "" &&
		(s.stores || (s.env.kind.Adapter.Read(s.Answer(), &have) == nil && have.Node.Name == node.Name)) {
		all = append(all, engine.Event{Kind: corev1.EventTypeNormal, Reason: EventNodeMatched, Action: actionMatchNode, Note: node.Name})
	}
	if node, set := s.Update.DrainedNode.Value(); set && node != "" {
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

// newEvents returns the events that the pass before this one did not tell.
func newEvents(before, told []engine.Event) []engine.Event {
	var all []engine.Event
	for _, e := range told {
		if !slices.Contains(before, e) {
			all = append(all, e)
		}
	}
	return all
}
