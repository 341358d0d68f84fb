package machine

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

// flush writes the decisions of the pass, delays a status that is only intermediate, and records events after the write that they are
// about.
func flush(ctx context.Context, s *Scope, err error) error {
	s.failed = err != nil
	s.forgetDeletion()
	before := s.env.memory.telling(s.State.Key)
	err = s.Flush(ctx, pass.Writing[contract.MachineUpdate]{
		Observes: s.observes(), Urgent: s.urgent, Settle: s.settleFacts, Wrote: s.wrote,
	})
	s.observer.wrote(s, err)
	if err == nil {
		err = s.checkKept()
	}
	next, now := before.tells(s.told, err == nil && (!s.Delayed() || s.Written()))
	s.env.memory.setTelling(s.State.Key, next)
	s.Record(now...)
	return err
}

// observes reports whether this pass has evaluated the whole Machine: a pass that failed or found the Machine paused has not. Each
// condition still has its own observed generation. Rule: Cluster API's Machine controller.
func (s *Scope) observes() bool { return !s.failed && !s.Paused() }

// wrote records the events of one write.
func (s *Scope) wrote(u contract.MachineUpdate, main, status bool) {
	var events []pass.Event
	if status {
		s.stores = true
		events = pass.ConditionEvents(s.Stored, u.Conditions, problems(s.Deleting()))
	}
	switch {
	case main && !status:
		events = append(s.drained(u), s.nodeRecorded(u)...)
		s.mainTold = true
	case main:
		events = slices.Concat(events, matchEvents(u), s.drained(u))
	default:
		if !s.matchTold {
			events = append(events, matchEvents(u)...)
		}
		if !s.mainTold { // otherwise the write of the metadata has recorded the events
			events = append(events, s.drained(u)...)
		}
	}
	s.Record(events...)
}

// settleFacts are what this package knows about a status that differs from the stored one.
func (s *Scope) settleFacts(main, status contract.MachineUpdate) (pass.SettleFacts, error) {
	forced, err := s.forcesStatus(status)
	ready, _ := pass.Find(s.Asserted, contract.ConditionReady)
	nodeReady, _ := pass.Find(s.Asserted, contract.ConditionNodeReady)
	return pass.SettleFacts{
		Urgent:      forced,
		Final:       ready.Status == metav1.ConditionTrue && main.ProviderID.Keeps() && main.DataSecretName.Keeps(),
		Expecting:   (!status.Node.Keeps() && nodeReady.Status != metav1.ConditionTrue) || s.drainEnds(),
		Fingerprint: pass.Fingerprint(s.State.Phase, s.Asserted),
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
