package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/patch"
)

// flush writes the decisions of the pass: metadata and spec first, then status on top of the server's answer. It skips values that are
// already stored. The returned duration is when a delayed status is due.
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
		return 0, nil // the object is gone: there is no status to write
	}
	if !writeStatus {
		return again, nil
	}
	return again, s.writeStatus(ctx, current, status)
}

// split divides an update into the part for the main resource and the part for the status subresource. Only a layout knows where a member
// is stored, and state may be in annotations: so both parts have all such members, and each write removes from its patch what it does not
// apply to. Conditions are in the status part only.
func split(u contract.MachineUpdate) (main, status contract.MachineUpdate) {
	main, status = u, u
	main.Conditions, main.RemoveConditions = nil, nil
	status.MetadataUpdate = contract.MetadataUpdate{}
	status.ProviderID, status.DataSecretName = contract.Change[string]{}, contract.Change[string]{}
	return main, status
}

// urgent reports whether another controller waits for a value in an update. A Node's UID alone can wait for the next status write.
func urgent(u contract.MachineUpdate) bool {
	return !u.Finalizers.Keeps() || !u.OwnerReferences.Keeps() || len(u.Labels) > 0 || len(u.Annotations) > 0 ||
		!u.ProviderID.Keeps() || !u.DataSecretName.Keeps() || !u.DrainedNode.Keeps() ||
		!u.VolumesDetachedNode.Keeps() || stageStarted(u)
}

// stageStarted reports whether a stage of deletion began: its limit counts from the written time.
func stageStarted(u contract.MachineUpdate) bool {
	return !u.PreDrainStarted.Keeps() || !u.DrainStarted.Keeps() || !u.VolumeDetachStarted.Keeps() || !u.PreTerminateStarted.Keeps()
}

// observes reports whether this pass has evaluated the whole Machine: a pass that failed or found the Machine paused has not. Each
// condition still has its own observed generation. Rule: Cluster API's Machine controller.
func (s *Scope) observes() bool { return !s.failed && !s.paused }

// observed returns the observed generation to write.
func (s *Scope) observed() contract.Change[int64] {
	if !s.observes() {
		return contract.Change[int64]{}
	}
	return contract.SetTo(s.generation)
}

// generationOf returns the generation that a status has to record as observed. Where status is not a subresource, a status write
// increments the generation, and a status with its generation would have to be written again after each write: such a status has none.
func (r *Reconciler) generationOf(obj contract.Object) int64 {
	if !r.kind.StatusSubresource {
		return 0
	}
	return obj.GetGeneration()
}

// writeWhole writes everything in one patch, where status is not a subresource.
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

// writeMain writes metadata and spec. When a status write follows, the patch only applies to the version that this pass has read
// (guarded): the status was decided on that version.
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
	if !s.written { // otherwise the write of the metadata has recorded the events
		tells = append(tells, s.drained(u)...)
	}
	if _, err := s.send(ctx, current, status, true, true); err != nil {
		return err
	}
	s.stores = true
	s.record(tells)
	return nil
}

// dueStatus is a status update that only has the changed conditions, and the object that results from it.
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

// send writes a document to the Machine's main resource, or to its status, and returns the server's answer. A guarded document has the
// resourceVersion that it was decided on; a status always does, because two status writes cannot be merged.
func (s *Scope) send(ctx context.Context, on contract.Object, d patch.Document, status, guarded bool) (contract.Object, error) {
	target := s.env.newObject()
	if err := s.env.writer.Send(ctx, on, target, d, status, guarded); err != nil {
		return nil, fmt.Errorf("write %s %s: %w", s.env.kind.GVK.Kind, s.State.Key, err)
	}
	s.written, s.answer = true, target
	target.SetManagedFields(nil) // they are not used, and would be copied for the next write
	return target, nil
}

// backlog estimates how long it takes to write all waiting statuses, one after the other.
func (r *Reconciler) backlog() time.Duration {
	return time.Duration(r.memory.waiting()) * r.writer.Pace()
}
