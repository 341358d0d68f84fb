package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/patch"
)

// Writing says how Flush writes an object.
type Writing struct {
	// Observes: the pass has evaluated the whole object, so the status records its generation as observed.
	Observes bool
	// Guarded: the metadata is written on the version that was read, also when no status follows.
	Guarded bool
	// Silent: the status stays as it is. It does so in any case after Release.
	Silent bool
	// Problems are reasons of conditions: one that changes to such a reason is a Warning event, once it is written.
	Problems []string
}

// Flush writes the decisions of the pass: metadata and spec first, when they differ, then the status on top of the server's answer. A
// status that differs is written at once if a step has asked for a checkpoint, if the object becomes or ceases to be ready, or if the last
// write of its status was Options.StatusDelay ago or longer; otherwise when that time is over, by a later pass, which Flush requests.
func (s *Scope[S, U]) Flush(ctx context.Context, w Writing) error {
	w.Observes = w.Observes && s.frame.Kind.StatusSubresource
	if !s.hasChanges(w.Observes) {
		return nil
	}
	decided, err := s.decided(s.Object, s.Asserted, w.Observes)
	if err != nil {
		return err
	}
	writes := !w.Silent && !s.released && !decided.Status().Empty() && s.isDue()
	if writes && !s.frame.Kind.StatusSubresource {
		return s.writeStatus(ctx, s.Object, decided.Whole(), w)
	}
	current, err := s.writeMain(ctx, decided.Main(), w, writes || w.Guarded)
	if err != nil || !writes || s.isGone(current) {
		return err
	}
	if current != s.Object { // the write of the metadata has changed what the status is written on
		if decided, err = s.decided(current, s.Asserted, w.Observes); err != nil {
			return err
		}
	}
	return s.writeStatus(ctx, current, decided.Status(), w)
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

// isGone reports whether a write has removed the last finalizer of an object in deletion: there is no status to write.
func (s *Scope[S, U]) isGone(current contract.Object) bool {
	return s.Deleting() && len(current.GetFinalizers()) == 0
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

// decided applies what the pass has decided to an object.
func (s *Scope[S, U]) decided(obj contract.Object, asserted []metav1.Condition, observes bool) (patch.Contents, error) {
	u := s.Update
	common := ChangesOf(&u)
	*common.Conditions = contract.ChangedConditions(s.Stored, asserted, s.generation, s.Now)
	*common.ObservedGeneration = contract.Change[int64]{}
	if observes {
		*common.ObservedGeneration = contract.SetTo(s.generation)
	}
	return patch.Apply(s.frame.Kind, obj, u)
}

// HasDecided reports whether this pass has decided something that is not stored. A checkpoint without that has no effect. A value that a
// step sets and a later one resets is no decision. Neither is the condition that a deletion has begun: each pass sets it until a stage
// replaces it. Where it cannot be known it returns true, and the write reports why.
func (s *Scope[S, U]) HasDecided() bool {
	asserted := s.Asserted
	if said, _ := Find(s.Stored, contract.ConditionDeleting); said.Status == metav1.ConditionTrue {
		asserted = slices.DeleteFunc(slices.Clone(asserted), func(c metav1.Condition) bool {
			return c.Type == contract.ConditionDeleting && c.Reason == contract.ReasonDeleting
		})
	}
	contents, err := s.decided(s.Object, asserted, false)
	return err != nil || !contents.Whole().Empty()
}

// writeMain writes metadata and spec. A guarded patch only applies to the version that this pass has read: a status that follows was
// decided on that version.
func (s *Scope[S, U]) writeMain(ctx context.Context, main patch.Document, w Writing, guarded bool) (contract.Object, error) {
	if main.Empty() {
		return s.Object, nil
	}
	current, err := s.send(ctx, s.Object, main, false, guarded)
	if err != nil {
		return nil, s.writeContest(ctx, w, err)
	}
	s.Common().Generation, s.generation = current.GetGeneration(), s.frame.Generation(current)
	return current, nil
}

// writeStatus writes the status, or everything where it is no subresource.
func (s *Scope[S, U]) writeStatus(ctx context.Context, current contract.Object, status patch.Document, w Writing) error {
	if status.Empty() {
		return nil
	}
	_, err := s.send(ctx, current, status, s.frame.Kind.StatusSubresource, true)
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

// send writes a document to the object's main resource, or to its status, and returns the server's answer. A guarded document has the
// resourceVersion that it was decided on; a status always does, because two status writes cannot be merged.
func (s *Scope[S, U]) send(ctx context.Context, on contract.Object, d patch.Document, status, guarded bool) (contract.Object, error) {
	answer, err := send(ctx, s.frame.Writer, s.frame.Kind, on, d, status, guarded)
	if err != nil {
		return nil, err
	}
	s.answer = answer
	answer.SetManagedFields(nil) // they are not used, and would be copied for the next write
	return answer, nil
}

func send[S, U any](ctx context.Context, w *patch.Writer, kind contract.KindOf[S, U], on contract.Object, d patch.Document,
	status, guarded bool,
) (contract.Object, error) {
	if d.Empty() {
		return on, nil
	}
	answer := NewObject(kind)
	if err := w.Send(ctx, on, answer, d, status, guarded); err != nil {
		return nil, fmt.Errorf("write %s %s/%s: %w", kind.GVK.Kind, on.GetNamespace(), on.GetName(), err)
	}
	return answer, nil
}

// Write writes the metadata and the spec of an update to an object of any kind, and returns the answer of the API server. It writes nothing
// that is stored already, and then returns the object as it is. guarded writes only on the version that was read.
func Write[S, U any](ctx context.Context, w *patch.Writer, kind contract.KindOf[S, U], obj contract.Object, u U, guarded bool,
) (contract.Object, error) {
	contents, err := patch.Apply(kind, obj, u)
	if err != nil {
		return obj, err
	}
	return send(ctx, w, kind, obj, contents.Main(), false, guarded)
}

// WriteStatus is Write for the status of an update, on the version that was read. Where status is no subresource, it writes all of the
// update.
func WriteStatus[S, U any](ctx context.Context, w *patch.Writer, kind contract.KindOf[S, U], obj contract.Object, u U,
) (contract.Object, error) {
	contents, err := patch.Apply(kind, obj, u)
	if err != nil {
		return obj, err
	}
	status := contents.Status()
	if !kind.StatusSubresource {
		status = contents.Whole()
	}
	return send(ctx, w, kind, obj, status, kind.StatusSubresource, true)
}

// Commit writes metadata and spec now, on the version that was read, and continues the pass with the server's answer: the decisions that
// follow are based on it. It writes nothing that is stored already. Decisions about the status stay for Flush, and the stored
// conditions stay those that the pass began with. When the write fails, what was decided so far is dropped: Flush must not write on another
// version what depends on this one.
func (s *Scope[S, U]) Commit(ctx context.Context) error {
	contents, err := patch.Apply(s.frame.Kind, s.Object, s.Update)
	if err != nil || contents.Main().Empty() {
		return err
	}
	written, err := s.send(ctx, s.Object, contents.Main(), false, true)
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

// writeContest writes the condition Contested alone when the metadata was put off, because the status may depend on it. It returns the
// error about the metadata.
func (s *Scope[S, U]) writeContest(ctx context.Context, w Writing, err error) error {
	undone := Undone(err)
	if undone == nil {
		return err
	}
	var none U
	s.Update, s.Asserted = none, nil
	s.Assert(Condition(contract.ConditionContested, metav1.ConditionTrue, contract.ReasonWritesUndone, undone.Error()))
	decided, failed := s.decided(s.Object, s.Asserted, false)
	if w.Silent || failed != nil || !s.isDue() {
		return err
	}
	return errors.Join(err, s.writeStatus(ctx, s.Object, decided.Status(), w))
}
