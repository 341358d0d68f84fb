package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/patch"
)

// flush writes what the pass has decided: metadata and spec first, then status on top of what the server returned. It
// writes nothing that is there already. The returned duration is when a status that was left to settle is due.
func (s *Scope) flush(ctx context.Context) (time.Duration, error) {
	before, pending := s.env.memory.telling(s.State.Key), s.env.memory.settling(s.State.Key)
	again, err := s.write(ctx)
	if err != nil && s.env.memory.settling(s.State.Key) == (settling{}) {
		s.env.memory.setSettling(s.State.Key, pending) // what was due and could not be written is still due
	}
	s.observer.wrote(s, err)
	if err == nil {
		err = s.checkKept()
	}
	next, now := before.tells(s.told, err == nil && (again == 0 || s.written))
	s.env.memory.setTelling(s.State.Key, next)
	s.record(now)
	return again, err
}

func (s *Scope) write(ctx context.Context) (time.Duration, error) {
	main, status := split(s.update)
	writeStatus, again, err := s.settleStatus(status, main)
	if err != nil || (!urgent(main) && !s.urgent && !writeStatus) {
		return again, err
	}
	if writeStatus && !s.env.kind.StatusSubresource {
		return again, s.writeWhole(ctx)
	}
	current, err := s.writeMain(ctx, main, writeStatus)
	if err != nil {
		return again, err
	}
	finalizers, set := main.Finalizers.Value()
	if set && len(finalizers) == 0 && !s.State.Deleting.IsZero() && len(current.GetFinalizers()) == 0 {
		s.env.memory.forget(s.State.Key)
		return 0, nil // the object is gone: there is no status to write
	}
	if !writeStatus {
		return again, nil
	}
	return again, s.writeStatus(ctx, current, status)
}

// split parts an update into what the main resource takes and what the status subresource takes. Only a layout knows on
// which side a member is, and state may live in annotations: so both take all, and whatever a write does not apply to is
// cut from its patch. Conditions are for the status alone.
func split(u contract.MachineUpdate) (main, status contract.MachineUpdate) {
	main, status = u, u
	main.Conditions, main.RemoveConditions = nil, nil
	status.MetadataUpdate = contract.MetadataUpdate{}
	status.ProviderID, status.DataSecretName = contract.Change[string]{}, contract.Change[string]{}
	return main, status
}

// urgent reports whether somebody else waits for what an update holds. A Node's UID alone rides along with the status.
func urgent(u contract.MachineUpdate) bool {
	return !u.Finalizers.Keeps() || !u.OwnerReferences.Keeps() || len(u.Labels) > 0 || len(u.Annotations) > 0 ||
		!u.ProviderID.Keeps() || !u.DataSecretName.Keeps() || !u.DrainedNode.Keeps() ||
		!u.VolumesDetachedNode.Keeps() || stageStarted(u)
}

// stageStarted reports whether a stage of deletion began: its limit counts from what is written.
func stageStarted(u contract.MachineUpdate) bool {
	return !u.PreDrainStarted.Keeps() || !u.DrainStarted.Keeps() || !u.VolumeDetachStarted.Keeps() || !u.PreTerminateStarted.Keeps()
}

// observes reports whether this pass has looked at the whole Machine: one that failed has not, and a paused Machine is left
// alone. Each condition still says which generation it was made of. Rule: Cluster API's Machine controller.
func (s *Scope) observes() bool { return !s.failed && !s.paused }

// observed is the observed generation to write.
func (s *Scope) observed() contract.Change[int64] {
	if !s.observes() {
		return contract.Change[int64]{}
	}
	return contract.SetTo(s.generation)
}

// generationOf is the generation that a status says it was made of. Where status has no endpoint of its own, generations
// count status writes too, and a status that named its own would have to be written again for ever: it names none.
func (r *Reconciler) generationOf(obj contract.Object) int64 {
	if !r.kind.StatusSubresource {
		return 0
	}
	return obj.GetGeneration()
}

// writeWhole writes everything in one patch, where status has no endpoint of its own.
func (s *Scope) writeWhole(ctx context.Context) error {
	due, err := s.statusOn(s.Object, s.update)
	if err != nil {
		return err
	}
	u, whole := due.update, due.contents.Whole()
	if whole.Empty() {
		return nil
	}
	if _, err := s.send(ctx, s.Object, whole, false, true); err != nil {
		return err
	}
	s.stores = true
	s.record(slices.Concat(conditionEvents(s.stored, u.Conditions, !s.State.Deleting.IsZero()), matchEvents(u), s.drained(u)))
	return nil
}

// writeMain writes metadata and spec. With a status to follow, it is written only on what this pass has read (guarded): the status is
// decided on that, and would otherwise go on top of one that this pass has not seen.
func (s *Scope) writeMain(ctx context.Context, u contract.MachineUpdate, guarded bool) (contract.Object, error) {
	u.ObservedGeneration = s.observed() // for a layout that keeps it in an annotation
	contents, err := patch.ApplyOn(s.env.kind, &s.base, s.Object, u)
	if err != nil {
		return nil, err
	}
	main := contents.Main()
	if main.Empty() {
		return s.Object, nil
	}
	current, err := s.send(ctx, s.Object, main, false, guarded)
	if err == nil {
		s.record(append(s.drained(u), s.nodeRecorded(u)...))
		s.State.Generation, s.generation = current.GetGeneration(), s.env.generationOf(current)
	}
	return current, err
}

func (s *Scope) writeStatus(ctx context.Context, current contract.Object, u contract.MachineUpdate) error {
	due := s.due
	if due == nil || current != s.Object { // the write of the metadata has changed what the status is written on
		var err error
		if due, err = s.statusOn(current, u); err != nil {
			return err
		}
	}
	u, status := due.update, due.contents.Status()
	if status.Empty() {
		return nil
	}
	tells := conditionEvents(s.stored, u.Conditions, !s.State.Deleting.IsZero())
	if !s.matchTold {
		tells = append(tells, matchEvents(u)...)
	}
	if !s.written { // otherwise the write of the metadata has told
		tells = append(tells, s.drained(u)...)
	}
	if _, err := s.send(ctx, current, status, true, true); err != nil {
		return err
	}
	s.stores = true
	s.record(tells)
	return nil
}

// dueStatus is an update that a status is written of, with the conditions that have changed, and what it makes of the object.
type dueStatus struct {
	update   contract.MachineUpdate
	contents patch.Contents
}

func (s *Scope) statusOn(obj contract.Object, u contract.MachineUpdate) (*dueStatus, error) {
	u.Conditions = contract.ChangedConditions(s.stored, s.asserted, s.generation, s.Now)
	u.ObservedGeneration = s.observed()
	contents, err := patch.ApplyOn(s.env.kind, &s.base, obj, u)
	return &dueStatus{u, contents}, err
}

// send writes a document to the Machine's main resource, or to its status, and returns what the server answered. A guarded one names
// the version it was decided on; a status always is, because two of them do not add up.
func (s *Scope) send(ctx context.Context, on contract.Object, d patch.Document, status, guarded bool) (contract.Object, error) {
	target := s.env.newObject()
	if err := s.env.writer.Send(ctx, on, target, d, status, guarded); err != nil {
		return nil, fmt.Errorf("write %s %s: %w", s.env.kind.GVK.Kind, s.State.Key, err)
	}
	s.written, s.answer = true, target
	target.SetManagedFields(nil) // nobody looks at them, and they would be copied for the next write
	return target, nil
}

// backlog is how long it would take to write, one after the other, all statuses that are waiting.
func (r *Reconciler) backlog() time.Duration {
	return time.Duration(r.memory.waiting()) * r.writer.Pace()
}
