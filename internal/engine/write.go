package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/patch"
)

// Writing defines how Flush writes an object.
type Writing struct {
	// Observes: the pass has evaluated the whole object, so the status records its generation as observed.
	Observes bool
	// Silent: the status is not changed. It is never changed after Release.
	Silent bool
	// Problems are reasons of conditions: a condition that changes to one of them is a Warning event after the write.
	Problems []string
}

// Flush writes the decisions of the pass, on the version that was read: metadata and spec first, when they differ, then the status on top
// of the server's answer. A changed status is written at once if a step requires a checkpoint, if the object becomes or ceases to be ready,
// or if the last write of its status was at least Options.StatusDelay ago. Otherwise Flush requests a later pass, which writes it.
func (s *Scope[S, U]) Flush(ctx context.Context, w Writing) error {
	w.Observes = w.Observes && s.frame.observes()
	if !s.hasChanges(w.Observes) {
		return nil
	}
	decided, err := s.decided(s.Object, w.Observes)
	if err != nil {
		return err
	}
	writes := !w.Silent && !s.released && len(decided.Status()) > 0 && s.isDue()
	if writes && !s.frame.Kind.StatusSubresource {
		return s.writeStatus(ctx, s.Object, decided, w)
	}
	current, err := s.send(ctx, s.Object, decided.Main(), false)
	if undone := Undone(err); undone != nil && writes {
		return errors.Join(err, s.writeContest(ctx, undone, w))
	}
	if err != nil || !writes || s.isGone(current) {
		return err
	}
	s.Common().Generation, s.generation = current.GetGeneration(), s.frame.Generation(current)
	if decided, err = s.decided(current, w.Observes); err != nil {
		return err
	}
	return s.writeStatus(ctx, current, decided.Status(), w)
}

// observes reports whether a status records its observed generation: without a status subresource the generation changes with each write.
func (f *Frame[S, U]) observes() bool { return f.Kind.StatusSubresource && !f.forgetsGeneration }

// isGone reports whether the object is gone after a write: an object in deletion is gone after its last finalizer was removed.
func (s *Scope[S, U]) isGone(current contract.Object) bool {
	return s.Deleting() && len(current.GetFinalizers()) == 0
}

// writeContest writes only the condition Contested when the metadata was delayed, because the rest of the status may depend on it.
func (s *Scope[S, U]) writeContest(ctx context.Context, undone error, w Writing) error {
	var none U
	s.Update, s.Asserted = none, nil
	s.Assert(Condition(contract.ConditionContested, metav1.ConditionTrue, contract.ReasonWritesUndone, undone.Error()))
	decided, err := s.decided(s.Object, false)
	if err != nil {
		return err
	}
	return s.writeStatus(ctx, s.Object, decided.Status(), w)
}

// isDue reports whether a changed status is written in this pass, and requests another pass when it is not.
func (s *Scope[S, U]) isDue() bool {
	delay := s.frame.Options.StatusDelay
	left := s.writes().status.Add(delay).Sub(s.Now)
	if s.checkpoint || s.changesReadiness() || left <= 0 || left > delay { // a clock that was set back delays nothing
		return true
	}
	s.Requeue(left)
	return false
}

// writes returns the memory of this process about its writes of the object.
func (s *Scope[S, U]) writes() *writes { return s.frame.writes.Of(s.Common().Key, s.Common().UID) }

// changesReadiness reports whether the object becomes or ceases to be ready in this pass.
func (s *Scope[S, U]) changesReadiness() bool {
	_, found := Find(s.Asserted, contract.ConditionReady)
	return found && s.IsTrue(contract.ConditionReady) != HasStatus(s.Stored, contract.ConditionReady, metav1.ConditionTrue)
}

// Written reports whether this pass has written the object.
func (s *Scope[S, U]) Written() bool { return s.answer != nil }

// WroteStatus reports whether this pass has written the status.
func (s *Scope[S, U]) WroteStatus() bool { return s.wroteStatus }

// hasChanges reports whether the pass may have decisions that are not stored; most passes have none.
func (s *Scope[S, U]) hasChanges(observes bool) bool {
	return (observes && s.Common().ObservedGeneration != s.generation) || !reflect.ValueOf(&s.Update).Elem().IsZero() ||
		len(contract.ChangedConditions(s.Stored, s.Asserted, s.generation, s.Now)) > 0
}

// decided returns the decisions of the pass, as a change of an object.
func (s *Scope[S, U]) decided(obj contract.Object, observes bool) (patch.Document, error) {
	u := s.Update
	common := contract.ChangesOf(&u)
	*common.Conditions = contract.ChangedConditions(s.Stored, s.Asserted, s.generation, s.Now)
	*common.ObservedGeneration = contract.Change[int64]{}
	if observes {
		*common.ObservedGeneration = contract.SetTo(s.generation)
	}
	return patch.Apply(s.frame.Kind, obj, u)
}

// hasDecided reports whether this pass has decisions that are not stored. A checkpoint without them has no effect. A value that a step sets
// and a later one resets is not a decision. If that cannot be determined it returns true, and the write reports why.
func (s *Scope[S, U]) hasDecided() bool {
	changes, err := s.decided(s.Object, false)
	return err != nil || len(changes) > 0
}

// writeStatus writes the status, or everything if it is not a subresource.
func (s *Scope[S, U]) writeStatus(ctx context.Context, current contract.Object, status patch.Document, w Writing) error {
	if len(status) == 0 {
		return nil
	}
	_, err := s.send(ctx, current, status, s.frame.Kind.StatusSubresource)
	switch {
	case err == nil:
		s.writes().status, s.wroteStatus = s.Now, true
		s.Record(ConditionEvents(s.Stored, contract.ChangedConditions(s.Stored, s.Asserted, s.generation, s.Now), w.Problems)...)
	case apierrors.IsNotFound(err): // otherwise the object would be reconciled without ever reporting anything
		return fmt.Errorf("%w: if the object exists, its CRD has no status subresource: add it, or set StatusSubresource of the contract.Kind "+
			"to false", err)
	}
	return err
}

// send writes a document to the object, or to its status, and returns the server's answer, or the object when there is nothing to write.
func (s *Scope[S, U]) send(ctx context.Context, on contract.Object, d patch.Document, status bool) (contract.Object, error) {
	answer, err := send(ctx, s.frame.Writer, s.frame.Kind, on, d, status)
	if err == nil && len(d) > 0 {
		s.answer = answer
	}
	return answer, err
}

func send[S, U any](ctx context.Context, w *patch.Writer, kind contract.KindOf[S, U], on contract.Object, d patch.Document, status bool,
) (contract.Object, error) {
	if len(d) == 0 {
		return on, nil
	}
	answer := NewObject(kind)
	if err := w.Send(ctx, on, answer, d, status); err != nil {
		return nil, fmt.Errorf("write %s %s/%s: %w", kind.GVK.Kind, on.GetNamespace(), on.GetName(), err)
	}
	return answer, nil
}

// Write writes the metadata and the spec of an update to an object of any kind, on the version that was read, and returns the answer of the
// API server. If everything is stored already, it writes nothing and returns the object.
func Write[S, U any](ctx context.Context, w *patch.Writer, kind contract.KindOf[S, U], obj contract.Object, u U) (contract.Object, error) {
	changes, err := patch.Apply(kind, obj, u)
	if err != nil {
		return obj, err
	}
	return send(ctx, w, kind, obj, changes.Main(), false)
}

// WriteConditions sets and removes conditions of a Machine whose state was read, on that version, and returns the answer of the API server.
// If everything is stored already, it writes nothing and returns the object. If status is not a subresource, conditions have no observed
// generation: each write increments the generation, so they would be written forever.
func WriteConditions(
	ctx context.Context, w *patch.Writer, kind contract.Kind, obj contract.Object, have *contract.MachineState, set []metav1.Condition,
	removed []string, now time.Time,
) (contract.Object, error) {
	var generation int64
	if kind.StatusSubresource {
		generation = have.Generation
	}
	u := contract.MachineUpdate{Conditions: contract.ChangedConditions(have.Conditions, set, generation, now), RemoveConditions: removed}
	if len(u.Conditions)+len(removed) == 0 {
		return obj, nil
	}
	changes, err := patch.Apply(kind, obj, u)
	if err != nil {
		return obj, err
	}
	if kind.StatusSubresource {
		changes = changes.Status()
	}
	return send(ctx, w, kind, obj, changes, kind.StatusSubresource)
}

// Commit writes metadata and spec now, on the version that was read, and continues the pass with the server's answer, on which later
// decisions are based. It writes nothing that is stored already. Decisions about the status are left to Flush, and Stored does not change.
// When the write fails, the decisions so far are dropped: Flush must not write dependent decisions on another version.
func (s *Scope[S, U]) Commit(ctx context.Context) error {
	changes, err := patch.Apply(s.frame.Kind, s.Object, s.Update)
	if err != nil || len(changes.Main()) == 0 {
		return err
	}
	written, err := s.send(ctx, s.Object, changes.Main(), false)
	if err != nil {
		var none U
		s.Update = none
		return err
	}
	*s.changes().MetadataUpdate = contract.MetadataUpdate{}
	var state S // a new one: values taken from the old one must not change
	if err := s.frame.Read(written, &state); err != nil {
		return err
	}
	s.Object, s.State = written, state
	s.generation = s.frame.Generation(written)
	return nil
}

// undoneGrace is how long after the next attempt an object counts as contested, because another writer can undo that attempt too.
const undoneGrace = 10 * time.Second

// writes is the last write of an object's status, the fields of its writes that others undo and until when, and the values of the last
// write that the API server did not store.
type writes struct {
	status  time.Time
	undone  string
	until   time.Time
	notKept string
}

// Undone returns the error of a write that other writers have undone too often, or nil.
func Undone(err error) *patch.UndoneError {
	undone, _ := errors.AsType[*patch.UndoneError](err)
	return undone
}

// remember records the fields that others undo, and requests the next attempt.
func (s *Scope[S, U]) remember(err error) {
	undone := Undone(err)
	if undone == nil {
		return
	}
	mine := s.writes()
	mine.undone, mine.until = undone.Error(), s.Now.Add(undone.After+undoneGrace)
	s.Requeue(undone.After)
	s.frame.Options.Metrics.contested()
}

// contest sets the condition Contested from the error of this pass, and from those of earlier passes whose grace is not over.
func (s *Scope[S, U]) contest(err error) {
	s.remember(err)
	have := s.writes()
	switch {
	case s.Now.Before(have.until):
		s.Assert(Condition(contract.ConditionContested, metav1.ConditionTrue, contract.ReasonWritesUndone, have.undone))
		s.Requeue(have.until.Sub(s.Now))
	case HasStatus(s.Stored, contract.ConditionContested, metav1.ConditionTrue):
		s.Assert(Condition(contract.ConditionContested, metav1.ConditionFalse, contract.ReasonNotContested, ""))
	}
}

// EventWriteNotKept is the reason of the event for a write that the API server has accepted without storing the value, because its CRD has
// no field for it or a mutating webhook removes it.
const EventWriteNotKept = "WriteNotKept"

// CheckKept reports the values of this pass's writes that the API server did not store, and returns an error that names them. lost compares
// the stored state with the decisions, and names missing values, empty for none. Without a write, or if the object cannot be read, the next
// pass reports them. written: this pass has written the lost values of an earlier pass again, or has nothing to store; otherwise the report
// of that pass remains, because limits of writes delay the repetitions.
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

// NotKept returns the values that the API server has accepted and not stored, empty when it stored all.
func (s *Scope[S, U]) NotKept() string { return s.writes().notKept }
