package engine

import (
	"context"
	"fmt"
	"slices"

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
	// Urgent: the metadata is written although no member of the update is urgent.
	Urgent bool
	// Guarded: the metadata is written on the version that was read, also when no status follows.
	Guarded bool
	// Silent: the status stays as it is. It does so in any case after Release.
	Silent bool
	// Settle returns the facts of a status that differs from the stored one, for the decision whether it is written in this pass. It is not
	// called for other ones. Nil writes the status.
	Settle func(main, status U) (SettleFacts, error)
	// Wrote is called after each write with the update that it stored; nil does nothing. The status is part of it when status is true.
	Wrote func(u U, main, status bool)
}

// Flush writes the decisions of the pass: metadata and spec first, then status on top of the server's answer. It skips values that are
// already stored. A status that waits is written by a later pass, which Flush requests, see Settle.
func (s *Scope[S, U]) Flush(ctx context.Context, w Writing[U]) error {
	w.Observes = w.Observes && s.frame.Kind.StatusSubresource
	main, status := s.frame.Members.Main(s.Update), s.frame.Members.Status(s.Update)
	due, err := s.statusDue(status, w.Observes)
	if err != nil {
		return err
	}
	facts, err := s.settleFacts(due != nil && !w.Silent && !s.released, main, status, w.Settle)
	if err != nil {
		return err
	}
	write, again, pending := Settle(facts)
	if write || w.Urgent || s.frame.Members.Urgent(&main) {
		err = s.flush(ctx, w, main, status, due, write)
	}
	if s.statusWritten && facts.Counts {
		pending.Written = s.Now
	}
	if err == nil || !write { // what was due and could not be written is still due
		s.frame.settlings.set(s.Common().Key, pending)
	}
	if s.delayed = again > 0 && !s.IsGone(); s.delayed {
		s.Requeue(again)
	}
	return err
}

// settleFacts returns the facts about a status that is dirty or not.
func (s *Scope[S, U]) settleFacts(dirty bool, main, status U, settle func(main, status U) (SettleFacts, error)) (SettleFacts, error) {
	facts := SettleFacts{Urgent: settle == nil}
	if dirty && settle != nil {
		var err error
		if facts, err = settle(main, status); err != nil {
			return facts, err
		}
	}
	facts.Dirty, facts.Urgent = dirty, facts.Urgent || s.demanded
	facts.Pending, facts.Now, facts.Delay = s.frame.settlings.of(s.Common().Key), s.Now, s.frame.patience()
	return facts, nil
}

// flush writes the metadata, and the status when write is true.
func (s *Scope[S, U]) flush(ctx context.Context, w Writing[U], main, status U, due *dueStatus[U], write bool) error {
	if write && !s.frame.Kind.StatusSubresource {
		return s.writeWhole(ctx, w)
	}
	current, err := s.writeMain(ctx, main, w, write || w.Guarded)
	if err != nil || !write || s.isGone(current) {
		return err
	}
	if current != s.Object { // the write of the metadata has changed what the status is written on
		if due, err = s.statusOn(current, status, w.Observes); err != nil {
			return err
		}
	}
	return s.writeStatus(ctx, current, due, w)
}

// Delayed reports whether Flush has left a status that differs from the stored one for a later pass.
func (s *Scope[S, U]) Delayed() bool { return s.delayed }

// isGone reports whether a write has removed the last finalizer of an object in deletion: there is no status to write.
func (s *Scope[S, U]) isGone(current contract.Object) bool {
	return s.Deleting() && len(current.GetFinalizers()) == 0
}

// IsGone reports whether this pass has removed the last finalizer of an object in deletion.
func (s *Scope[S, U]) IsGone() bool { return s.answer != nil && s.isGone(s.answer) }

// Written reports whether this pass has written the object.
func (s *Scope[S, U]) Written() bool { return s.written }

// Answer returns what the API server returned for the last write of this pass, nil before. It must not be changed.
func (s *Scope[S, U]) Answer() contract.Object { return s.answer }

// dueStatus is a status update with the changed conditions only, and the object that results from it.
type dueStatus[U any] struct {
	update   U
	contents patch.Contents
}

// statusDue returns the status update when it would change the object, nil otherwise. Not every layout stores every member of an update:
// one without a field for the generation, for example, would be dirty for ever.
func (s *Scope[S, U]) statusDue(status U, observes bool) (*dueStatus[U], error) {
	behind := observes && s.Common().ObservedGeneration != s.generation
	if !behind && !s.frame.Members.Dirty(&status) &&
		len(contract.ChangedConditions(s.Stored, s.Asserted, s.generation, s.Now)) == 0 {
		return nil, nil
	}
	due, err := s.statusOn(s.Object, status, observes)
	if err != nil || due.contents.Whole().Empty() {
		return nil, err
	}
	return due, nil
}

func (s *Scope[S, U]) statusOn(obj contract.Object, u U, observes bool) (*dueStatus[U], error) {
	s.completeStatus(&u, observes)
	contents, err := patch.Apply(s.frame.Kind, obj, u)
	return &dueStatus[U]{u, contents}, err
}

// completeStatus adds the changed conditions and the observed generation to an update.
func (s *Scope[S, U]) completeStatus(u *U, observes bool) {
	common := ChangesOf(u)
	*common.Conditions = contract.ChangedConditions(s.Stored, s.Asserted, s.generation, s.Now)
	*common.ObservedGeneration = s.observed(observes)
}

// observed returns the observed generation to write.
func (s *Scope[S, U]) observed(observes bool) contract.Change[int64] {
	if !observes {
		return contract.Change[int64]{}
	}
	return contract.SetTo(s.generation)
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

// Demanded reports whether a checkpoint of a step that is not standard requires that everything is written in this pass.
func (s *Scope[S, U]) Demanded() bool { return s.demanded }

// WouldChangeStatus reports whether writing an update would change the status of the object as it was read.
func (s *Scope[S, U]) WouldChangeStatus(u U) (bool, error) {
	contents, err := patch.Apply(s.frame.Kind, s.Object, u)
	return err == nil && !contents.Status().Empty(), err
}

// writeWhole writes everything in one patch, where status is not a subresource.
func (s *Scope[S, U]) writeWhole(ctx context.Context, w Writing[U]) error {
	due, err := s.statusOn(s.Object, s.Update, w.Observes)
	if err != nil {
		return err
	}
	whole := due.contents.Whole()
	if whole.Empty() {
		return nil
	}
	if _, err := s.send(ctx, s.Object, whole, false, true); err != nil {
		return err
	}
	s.wrote(w, due.update, true, true)
	return nil
}

// wrote records that an update was written.
func (s *Scope[S, U]) wrote(w Writing[U], u U, main, status bool) {
	s.statusWritten = s.statusWritten || status
	if w.Wrote != nil {
		w.Wrote(u, main, status)
	}
}

// writeMain writes metadata and spec. A guarded patch only applies to the version that this pass has read: a status that follows was
// decided on that version.
func (s *Scope[S, U]) writeMain(ctx context.Context, u U, w Writing[U], guarded bool) (contract.Object, error) {
	*ChangesOf(&u).ObservedGeneration = s.observed(w.Observes) // for a layout that keeps it in an annotation
	contents, err := patch.Apply(s.frame.Kind, s.Object, u)
	if err != nil {
		return nil, err
	}
	main := contents.Main()
	if main.Empty() {
		return s.Object, nil
	}
	current, err := s.send(ctx, s.Object, main, false, guarded)
	if err != nil {
		return nil, err
	}
	s.wrote(w, u, true, false)
	s.Common().Generation, s.generation = current.GetGeneration(), s.frame.Generation(current)
	return current, nil
}

func (s *Scope[S, U]) writeStatus(ctx context.Context, current contract.Object, due *dueStatus[U], w Writing[U]) error {
	status := due.contents.Status()
	if status.Empty() {
		return nil
	}
	_, err := s.send(ctx, current, status, true, true)
	switch {
	case err == nil:
		s.wrote(w, due.update, false, true)
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
	s.written, s.answer = true, target
	target.SetManagedFields(nil) // they are not used, and would be copied for the next write
	return target, nil
}

// Write writes the metadata and the spec of an update to an object of any kind, and returns the answer of the API server. It writes nothing
// that is stored already, and then returns the object as it is. guarded writes only on the version that was read.
func Write[S, U any](ctx context.Context, w *patch.Writer, kind contract.KindOf[S, U], obj contract.Object, u U, guarded bool,
) (contract.Object, error) {
	contents, err := patch.Apply(kind, obj, u)
	if err != nil {
		return nil, err
	}
	document := contents.Main()
	if document.Empty() {
		return obj, nil
	}
	written := NewObject(kind)
	if err := w.Send(ctx, obj, written, document, false, guarded); err != nil {
		return nil, fmt.Errorf("write %s %s/%s: %w", kind.GVK.Kind, obj.GetNamespace(), obj.GetName(), err)
	}
	return written, nil
}

// WriteStatus writes the status of an update to an object of any kind, on the version that was read, and returns the answer of the API
// server. It writes nothing that is stored already, and then returns the object as it is. Where status is no subresource, it writes all of
// the update.
func WriteStatus[S, U any](ctx context.Context, w *patch.Writer, kind contract.KindOf[S, U], obj contract.Object, u U,
) (contract.Object, error) {
	contents, err := patch.Apply(kind, obj, u)
	if err != nil {
		return nil, err
	}
	document := contents.Status()
	if !kind.StatusSubresource {
		document = contents.Whole()
	}
	if document.Empty() {
		return obj, nil
	}
	written := NewObject(kind)
	if err := w.Send(ctx, obj, written, document, kind.StatusSubresource, true); err != nil {
		return nil, fmt.Errorf("write the status of %s %s/%s: %w", kind.GVK.Kind, obj.GetNamespace(), obj.GetName(), err)
	}
	return written, nil
}

// Commit writes metadata and spec now, on the version that was read, and continues the pass with the server's answer: the decisions that
// follow are based on it. It writes nothing that is stored already. Decisions about the status stay for Flush, and the stored
// conditions stay those that the pass began with. Metadata that could not be written is dropped: Flush must not write on another
// version what depends on this one.
func (s *Scope[S, U]) Commit(ctx context.Context) error {
	main := s.frame.Members.Main(s.Update)
	if s.frame.Members.Empty(&main) {
		return nil
	}
	contents, err := patch.Apply(s.frame.Kind, s.Object, main)
	if err != nil || contents.Main().Empty() {
		return err
	}
	s.Update = s.frame.Members.Status(s.Update)
	written, err := s.send(ctx, s.Object, contents.Main(), false, true)
	if err != nil {
		return err
	}
	var state S // a new one: values that were taken from the old one stay as they are
	if err := s.frame.Read(written, &state); err != nil {
		return err
	}
	s.Object, s.State = written, state
	s.generation = s.frame.Generation(written)
	return nil
}
