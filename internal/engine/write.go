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

// Writing says how Flush writes an object.
type Writing struct {
	// Observes: the pass has evaluated the whole object, so the status records its generation as observed.
	Observes bool
	// Silent: the status stays as it is. It does so in any case after Release.
	Silent bool
	// Problems are reasons of conditions: one that changes to such a reason is a Warning event, once it is written.
	Problems []string
}

// Flush writes the decisions of the pass, on the version that was read: metadata and spec first, when they differ, then the status on
// top of the server's answer. A status that differs is written at once if a step has asked for a checkpoint, if the object becomes or
// ceases to be ready, or if the last write of its status was Options.StatusDelay ago or longer; otherwise when that time is over, by a
// later pass, which Flush requests.
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

// observes reports whether a status records the generation that it was made of: without a status subresource that changes with each write.
func (f *Frame[S, U]) observes() bool { return f.Kind.StatusSubresource && !f.forgetsGeneration }

// isGone reports whether the object is gone after a write: one in deletion goes with its last finalizer.
func (s *Scope[S, U]) isGone(current contract.Object) bool {
	return s.Deleting() && len(current.GetFinalizers()) == 0
}

// writeContest writes the condition Contested alone when the metadata was put off, because the rest of the status may depend on it.
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

// isDue reports whether a status that differs is written in this pass, and requests another pass when it is not.
func (s *Scope[S, U]) isDue() bool {
	delay := s.frame.Options.StatusDelay
	left := s.writes().status.Add(delay).Sub(s.Now)
	if s.checkpoint || s.changesReadiness() || left <= 0 || left > delay { // a clock that was set back delays nothing
		return true
	}
	s.Requeue(left)
	return false
}

// writes are what this process remembers of its writes of the object.
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

// hasChanges reports whether the pass may have decided something that is not stored: most have not.
func (s *Scope[S, U]) hasChanges(observes bool) bool {
	return (observes && s.Common().ObservedGeneration != s.generation) || !reflect.ValueOf(&s.Update).Elem().IsZero() ||
		len(contract.ChangedConditions(s.Stored, s.Asserted, s.generation, s.Now)) > 0
}

// decided returns what the pass has decided, as a change of an object.
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

// hasDecided reports whether this pass has decided something that is not stored. A checkpoint without that has no effect. A value that a
// step sets and a later one resets is no decision. Where it cannot be known it returns true, and the write reports why.
func (s *Scope[S, U]) hasDecided() bool {
	changes, err := s.decided(s.Object, false)
	return err != nil || len(changes) > 0
}

// writeStatus writes the status, or everything where it is no subresource.
func (s *Scope[S, U]) writeStatus(ctx context.Context, current contract.Object, status patch.Document, w Writing) error {
	if len(status) == 0 {
		return nil
	}
	_, err := s.send(ctx, current, status, s.frame.Kind.StatusSubresource)
	switch {
	case err == nil:
		s.writes().status, s.wroteStatus = s.Now, true
		s.Record(ConditionEvents(s.Stored, contract.ChangedConditions(s.Stored, s.Asserted, s.generation, s.Now), w.Problems)...)
	case apierrors.IsNotFound(err): // silence would mean to work without ever reporting anything
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

// Write writes the metadata and the spec of an update to an object of any kind, and returns the answer of the API server. It writes nothing
// that is stored already, and then returns the object as it is. It writes on the version that was read.
func Write[S, U any](ctx context.Context, w *patch.Writer, kind contract.KindOf[S, U], obj contract.Object, u U) (contract.Object, error) {
	changes, err := patch.Apply(kind, obj, u)
	if err != nil {
		return obj, err
	}
	return send(ctx, w, kind, obj, changes.Main(), false)
}

// WriteConditions sets and removes conditions of a Machine whose state was read, and returns the answer of the API server. It writes
// nothing that is stored already, and then returns the object as it is. It writes on the version that was read. Where status is no
// subresource, each write increments the generation, and a condition with its generation would be written for ever: such a condition has
// none.
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

// Commit writes metadata and spec now, on the version that was read, and continues the pass with the server's answer: the decisions that
// follow are based on it. It writes nothing that is stored already. Decisions about the status stay for Flush, and the stored
// conditions stay those that the pass began with. When the write fails, what was decided so far is dropped: Flush must not write on another
// version what depends on this one.
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
	var state S // a new one: values that were taken from the old one stay as they are
	if err := s.frame.Read(written, &state); err != nil {
		return err
	}
	s.Object, s.State = written, state
	s.generation = s.frame.Generation(written)
	return nil
}

// undoneGrace is how long after the next attempt an object counts as contested: until then another writer can undo that too.
const undoneGrace = 10 * time.Second

// writes are when the status of an object was written last, what other writers undo of the writes of its passes, until when, and what the
// API server did not store of the last one.
type writes struct {
	status  time.Time
	undone  string
	until   time.Time
	notKept string
}

// Undone returns the error of a write that other writers have undone too often, nil without one.
func Undone(err error) *patch.UndoneError {
	undone, _ := errors.AsType[*patch.UndoneError](err)
	return undone
}

// remember keeps what others undo, and requests the next attempt.
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

// contest sets the condition Contested from the error of this pass, and from those of the passes before it, whose grace is not over.
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
