package engine

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
)

// Writing says how Flush writes an object.
type Writing[U any] struct {
	// Observes: the pass has evaluated the whole object, so the status records its generation as observed.
	Observes bool
	// Guarded: the metadata is written on the version that was read, also when no status follows.
	Guarded bool
	// Silent: the status stays as it is. It does so in any case after Release.
	Silent bool
	// Wrote is called after each write with the update that it stored; nil does nothing. The status is part of it when status is true.
	Wrote func(u U, main, status bool)
}

// Flush writes the decisions of the pass: metadata and spec first, when they differ, then the status on top of the server's answer. A
// status that differs is written at once if a step has asked for a checkpoint, if the object becomes or ceases to be ready, or if the last
// write of its status was Options.StatusDelay ago or longer; otherwise when that time is over, by a later pass, which Flush requests.
func (s *Scope[S, U]) Flush(ctx context.Context, w Writing[U]) error {
	w.Observes = w.Observes && s.frame.Kind.StatusSubresource
	if !s.hasChanges(w.Observes) {
		return nil
	}
	d, err := s.decisions(s.Object, w.Observes)
	if err != nil {
		return err
	}
	writes := !w.Silent && !s.released && !d.contents.Status().Empty() && s.isDue()
	if writes && !s.frame.Kind.StatusSubresource {
		return s.writeWhole(ctx, d, w)
	}
	current, err := s.writeMain(ctx, d, w, writes || w.Guarded)
	if err != nil || !writes || s.isGone(current) {
		return err
	}
	if current != s.Object { // the write of the metadata has changed what the status is written on
		if d, err = s.decisions(current, w.Observes); err != nil {
			return err
		}
	}
	return s.writeStatus(ctx, current, d, w)
}

// isDue reports whether a status that differs is written in this pass, and requests another pass when it is not.
func (s *Scope[S, U]) isDue() bool {
	delay := s.frame.Options.StatusDelay
	left := s.lastWrite().Add(delay).Sub(s.Now)
	if s.checkpoint || s.changesReadiness() || left <= 0 || left > delay { // a clock that was set back delays nothing
		return true
	}
	s.Requeue(left)
	return false
}

// lastWrite is when this process wrote the status last.
func (s *Scope[S, U]) lastWrite() *time.Time {
	return s.frame.statusWrites.Of(s.Common().Key, s.Common().UID)
}

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

// Answer returns what the API server returned for the last write of this pass, nil before. It must not be changed.
func (s *Scope[S, U]) Answer() contract.Object { return s.answer }

// decisions are the update of a pass with the conditions that have changed, and an object before and after it.
type decisions[U any] struct {
	update   U
	contents patch.Contents
}

// hasChanges reports whether the pass may have decided something that is not stored: most have not.
func (s *Scope[S, U]) hasChanges(observes bool) bool {
	return (observes && s.Common().ObservedGeneration != s.generation) || !reflect.ValueOf(&s.Update).Elem().IsZero() ||
		len(contract.ChangedConditions(s.Stored, s.Asserted, s.generation, s.Now)) > 0
}

// decisions applies what the pass has decided to an object.
func (s *Scope[S, U]) decisions(obj contract.Object, observes bool) (decisions[U], error) {
	u := s.Update
	common := ChangesOf(&u)
	*common.Conditions = contract.ChangedConditions(s.Stored, s.Asserted, s.generation, s.Now)
	*common.ObservedGeneration = contract.Change[int64]{}
	if observes {
		*common.ObservedGeneration = contract.SetTo(s.generation)
	}
	contents, err := patch.Apply(s.frame.Kind, obj, u)
	return decisions[U]{u, contents}, err
}

// WouldChange reports whether writing an update would change the object as it was read. Where that cannot be known it returns true, and the
// write reports why.
func (s *Scope[S, U]) WouldChange(u U) bool {
	contents, err := patch.Apply(s.frame.Kind, s.Object, u)
	return err != nil || !contents.Whole().Empty()
}

// HasDecided reports whether this pass has decided something that is not stored. A checkpoint without that has no effect. A value that a
// step sets and a later one resets is no decision. Neither is the condition that a deletion has begun: each pass sets it until a stage
// replaces it.
func (s *Scope[S, U]) HasDecided() bool {
	u, asserted := s.Update, s.Asserted
	if said, _ := Find(s.Stored, contract.ConditionDeleting); said.Status == metav1.ConditionTrue {
		asserted = slices.DeleteFunc(slices.Clone(asserted), func(c metav1.Condition) bool {
			return c.Type == contract.ConditionDeleting && c.Reason == contract.ReasonDeleting
		})
	}
	*ChangesOf(&u).Conditions = contract.ChangedConditions(s.Stored, asserted, s.generation, s.Now)
	return s.WouldChange(u)
}

// writeWhole writes everything in one patch, where status is not a subresource.
func (s *Scope[S, U]) writeWhole(ctx context.Context, d decisions[U], w Writing[U]) error {
	if _, err := s.send(ctx, s.Object, d.contents.Whole(), false, true); err != nil {
		return err
	}
	s.wrote(w, d.update, true, true)
	return nil
}

// wrote records that an update was written.
func (s *Scope[S, U]) wrote(w Writing[U], u U, main, status bool) {
	if status {
		*s.lastWrite() = s.Now
	}
	if w.Wrote != nil {
		w.Wrote(u, main, status)
	}
}

// writeMain writes metadata and spec. A guarded patch only applies to the version that this pass has read: a status that follows was
// decided on that version.
func (s *Scope[S, U]) writeMain(ctx context.Context, d decisions[U], w Writing[U], guarded bool) (contract.Object, error) {
	main := d.contents.Main()
	if main.Empty() {
		return s.Object, nil
	}
	current, err := s.send(ctx, s.Object, main, false, guarded)
	if err != nil {
		return nil, s.writeContest(ctx, w, err)
	}
	s.wrote(w, d.update, true, false)
	s.Common().Generation, s.generation = current.GetGeneration(), s.frame.Generation(current)
	return current, nil
}

func (s *Scope[S, U]) writeStatus(ctx context.Context, current contract.Object, d decisions[U], w Writing[U]) error {
	status := d.contents.Status()
	if status.Empty() {
		return nil
	}
	_, err := s.send(ctx, current, status, true, true)
	switch {
	case err == nil:
		s.wrote(w, d.update, false, true)
	case apierrors.IsNotFound(err) && !external.SaysGone(err): // silence would mean to work without ever reporting anything
		return fmt.Errorf("%w: its CRD has no status subresource: add it, or set StatusSubresource of the contract.Kind to false", err)
	}
	return err
}

// send writes a document to the object's main resource, or to its status, and returns the server's answer. A guarded document has the
// resourceVersion that it was decided on; a status always does, because two status writes cannot be merged.
func (s *Scope[S, U]) send(ctx context.Context, on contract.Object, d patch.Document, status, guarded bool) (contract.Object, error) {
	target := NewObject(s.frame.Kind)
	if err := s.frame.Writer.Send(ctx, on, target, d, status, guarded); err != nil {
		return nil, fmt.Errorf("write %s: %w", s.frame.name(s.Common().Key), err)
	}
	s.answer = target
	target.SetManagedFields(nil) // they are not used, and would be copied for the next write
	return target, nil
}

// Write writes the metadata and the spec of an update to an object of any kind, and returns the answer of the API server. It writes nothing
// that is stored already, and then returns the object as it is. guarded writes only on the version that was read.
func Write[S, U any](ctx context.Context, w *patch.Writer, kind contract.KindOf[S, U], obj contract.Object, u U, guarded bool,
) (contract.Object, error) {
	return write(ctx, w, kind, obj, u, patch.Contents.Main, false, guarded)
}

// WriteStatus is Write for the status of an update, on the version that was read. Where status is no subresource, it writes all of the
// update.
func WriteStatus[S, U any](ctx context.Context, w *patch.Writer, kind contract.KindOf[S, U], obj contract.Object, u U,
) (contract.Object, error) {
	if !kind.StatusSubresource {
		return write(ctx, w, kind, obj, u, patch.Contents.Whole, false, true)
	}
	return write(ctx, w, kind, obj, u, patch.Contents.Status, true, true)
}

func write[S, U any](ctx context.Context, w *patch.Writer, kind contract.KindOf[S, U], obj contract.Object, u U,
	part func(patch.Contents) patch.Document, status, guarded bool,
) (contract.Object, error) {
	contents, err := patch.Apply(kind, obj, u)
	if err != nil {
		return nil, err
	}
	document := part(contents)
	if document.Empty() {
		return obj, nil
	}
	written := NewObject(kind)
	if err := w.Send(ctx, obj, written, document, status, guarded); err != nil {
		return nil, fmt.Errorf("write %s %s/%s: %w", kind.GVK.Kind, obj.GetNamespace(), obj.GetName(), err)
	}
	return written, nil
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
