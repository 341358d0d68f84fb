package engine

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
)

// ActionReconcile is the action of events about conditions.
const ActionReconcile = "Reconcile"

// Event is an event about the object of a pass.
type Event struct{ Kind, Reason, Action, Note string }

// Record records events now. Without Options.Recorder it does nothing.
func (s *Scope[S, U]) Record(all ...Event) {
	recorder := s.frame.Options.Recorder
	if recorder == nil {
		return
	}
	for _, e := range all {
		recorder.Eventf(s.Object, nil, e.Kind, e.Reason, e.Action, "%s", Bounded(e.Note, MaxNoteLength))
	}
}

// Eventf records one event now.
func (s *Scope[S, U]) Eventf(kind, reason, action, note string, args ...any) {
	s.Record(Event{kind, reason, action, fmt.Sprintf(note, args...)})
}

// Problems are the reasons of conditions that a person has to act on, for all kinds: a condition that changes to one of them is a Warning
// event.
func Problems() []string {
	return []string{
		external.ReasonCRDNotFound, external.ReasonContractLabelMissing, external.ReasonContractViolation, external.ReasonVersionNotServed,
		contract.ReasonOwnedByAnother, contract.ReasonDataSecretNameMissing, contract.ReasonAmbiguousNode, contract.ReasonNodeClaimed,
		contract.ReasonClusterDoesNotExist,
	}
}

// ConditionEvents returns the events of written conditions that change to a problem. Two conditions with the same message, such as
// NodeReady and NodeHealthy when the Node is gone, cause one event.
func ConditionEvents(stored, written []metav1.Condition, problems []string) []Event {
	var all []Event
	told := map[string]bool{}
	for _, c := range written {
		old, found := Find(stored, c.Type)
		same := c.Reason + "\x00" + c.Message
		if !slices.Contains(problems, c.Reason) || (found && old.Reason == c.Reason && old.Status == c.Status) || told[same] {
			continue
		}
		told[same] = true
		all = append(all, Event{corev1.EventTypeWarning, c.Reason, ActionReconcile, c.Type + ": " + c.Message})
	}
	return all
}
