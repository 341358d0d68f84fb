package engine

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// EventWriteNotKept is the reason of an event that reports that the API server has accepted a write and does not store the written value,
// because its CRD has no field for it, or a mutating webhook removes it.
const EventWriteNotKept = "WriteNotKept"

// CheckKept reports what the API server did not store of the writes of this pass, and returns an error that names it. lost compares what
// is stored with what was decided, and names what is missing, empty for nothing. Without a write, or where the object cannot be read, the
// next pass reports it. written: this pass has written again what an earlier pass lost, or has nothing to store; otherwise the report of
// that pass holds, because limits of writes delay the repetitions.
func (s *Scope[S, U]) CheckKept(written bool, lost func(have *S) string) error {
	mine := s.writes()
	text := mine.notKept
	if written {
		text = ""
	}
	var have S
	if text == "" && s.answer != nil && s.frame.Read(s.answer, &have) == nil {
		if what := lost(&have); what != "" {
			text = fmt.Sprintf("the API server accepts and does not keep %s: the CRD of %s has no field for it, or a mutating webhook removes it",
				what, s.frame.Kind.GVK.Kind)
		}
	}
	if text != "" && text != mine.notKept {
		s.Record(Event{Kind: corev1.EventTypeWarning, Reason: EventWriteNotKept, Action: "Write", Note: text})
	}
	if mine.notKept = text; text == "" {
		return nil
	}
	return fmt.Errorf("write %s: %s", s.frame.name(s.Common().Key), text)
}

// NotKept returns what the API server has accepted and not stored, empty when it stored all.
func (s *Scope[S, U]) NotKept() string { return s.writes().notKept }
