package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/patch"
)

// observeStep begins a deletion: a provider ID that an earlier step has found is stored before anything is deleted, and the decision about
// the Node must be known.
func observeStep(_ context.Context, s *Scope) (Result, error) {
	s.Assert(condition(ConditionDeleting, metav1.ConditionTrue, ReasonDeleting, "Deletion started"))
	if !s.update.ProviderID.Keeps() {
		return Result{Checkpoint: true}, s.checkStored()
	}
	if s.care() == CareUnknown {
		return s.careUnknown()
	}
	return Result{}, nil
}

// DefaultNodeDeletionTimeout is how long a Machine waits for its Node to be deleted, unless the Machine sets a timeout; the value is
// Cluster API's.
const DefaultNodeDeletionTimeout = 10 * time.Second

// removal is the decision about a referenced object of a Machine that is being deleted.
type removal uint8

const (
	// removalDone: there is no object to delete, or it belongs to another controller.
	removalDone removal = iota
	// removalDelete: request its deletion, and wait until it is gone.
	removalDelete
	// removalConfirm: continue when the API server confirms that the object is gone.
	removalConfirm
	// removalConfirmKind: continue when the API server confirms that the kind is gone.
	removalConfirmKind
	// removalWait: a person has to fix a problem first, or a read has to succeed.
	removalWait
)

// decideRemoval decides about one object, and returns the message for the time of the wait. mayHaveInstance is true when a real instance
// may exist for the object, which could not be found again if its kind is missing.
func decideRemoval(e external.Object, mayHaveInstance bool) (removal, string) {
	name := e.Ref.Kind + " " + e.Ref.Name
	switch e.Presence {
	case external.NotReferenced:
		return removalDone, ""
	case external.Present:
		if e.Foreign {
			return removalDone, ""
		}
		return removalDelete, fmt.Sprintf("Waiting for %s to be deleted", name)
	case external.Absent:
		return removalConfirm, name + " exists, but has not been seen yet"
	case external.KindMissing:
		if mayHaveInstance {
			return removalWait, e.Problem.Message + "; a machine was made for this Machine and cannot be found without it"
		}
		return removalConfirmKind, e.Problem.Message
	case external.Unread:
	}
	if e.Problem.Message != "" {
		return removalWait, e.Problem.Message
	}
	return removalWait, name + " could not be read yet"
}

// referenced is a referenced object as an object that may be gone.
func (s *Scope) referenced(e external.Object) goneObject {
	return goneObject{gvk: e.GVK, name: types.NamespacedName{Namespace: s.State.Key.Namespace, Name: e.Ref.Name}}
}

func deleteInfrastructureStep(ctx context.Context, s *Scope) (Result, error) {
	if err := s.lookUnless(ctx, &s.Infrastructure, s.State.Infrastructure); err != nil {
		return s.Wait(ReasonWaitingForInfrastructureDeletion, err.Error()), err
	}
	mayHaveInstance := s.State.InfrastructureReady.Or(false) || s.State.ProviderID != ""
	going := s.isGoing(s.Infrastructure)
	result, err := s.deleteReferenced(ctx, s.Infrastructure, mayHaveInstance, ReasonWaitingForInfrastructureDeletion)
	if !going && s.isGoing(s.Infrastructure) {
		s.deferDrained()
	}
	return result, err
}

// deferDrained defers the record of a drain and a wait for volumes that this pass has completed to the next write: the deletion of the
// infrastructure already implies that neither is repeated. The events are recorded in this pass.
func (s *Scope) deferDrained() {
	done := contract.MachineUpdate{DrainedNode: s.update.DrainedNode, VolumesDetachedNode: s.update.VolumesDetachedNode}
	drained, _ := done.DrainedNode.Value()
	detached, _ := done.VolumesDetachedNode.Value()
	if drained == "" && detached == "" {
		return
	}
	s.env.memory.setDeferred(&s.State, drained, detached)
	s.update.DrainedNode, s.update.VolumesDetachedNode = contract.Change[types.UID]{}, contract.Change[types.UID]{}
	s.record(drainEvents(done, s.State.Node.Name))
}

// recordDeferred writes the deferred record together with the removal of the finalizer, for controllers whose finalizers remain.
func (s *Scope) recordDeferred() {
	drained, detached := s.env.memory.deferred(&s.State)
	if drained != "" {
		s.SetDrained(drained)
	}
	if detached != "" {
		s.SetVolumesDetached(detached)
	}
	s.recorded = drained != "" || detached != ""
}

func deleteBootstrapStep(ctx context.Context, s *Scope) (Result, error) {
	if err := s.lookUnless(ctx, &s.Bootstrap, s.State.Bootstrap); err != nil {
		return s.Wait(ReasonWaitingForBootstrapDeletion, err.Error()), err
	}
	return s.deleteReferenced(ctx, s.Bootstrap, false, ReasonWaitingForBootstrapDeletion)
}

func (s *Scope) deleteReferenced(ctx context.Context, e external.Object, mayHaveInstance bool, reason string) (Result, error) {
	action, message := decideRemoval(e, mayHaveInstance)
	switch action {
	case removalDone:
		return Result{}, nil
	case removalDelete:
		if err := s.deleteExternal(ctx, e); err != nil {
			if !patch.Retryable(err) {
				message = err.Error()
			}
			return s.Wait(reason, message), err
		}
	case removalConfirm:
		return s.continueWhenGone(ctx, s.referenced(e), reason, message)
	case removalConfirmKind:
		crd := types.NamespacedName{Name: contract.CRDName(e.Ref.GroupKind())}
		return s.continueWhenGone(ctx, goneObject{gvk: external.CRDGVK(), name: crd}, reason, message)
	case removalWait:
	}
	wait := s.Wait(reason, message)
	wait.RequeueAfter = e.RetryAfter
	return wait, nil
}

// continueWhenGone continues when the API server confirms that an object is gone, and retries soon when it does not.
func (s *Scope) continueWhenGone(ctx context.Context, object goneObject, reason, message string) (Result, error) {
	switch gone, err := s.confirmGone(ctx, object); {
	case err != nil:
		return s.Wait(reason, err.Error()), err
	case gone:
		return Result{}, nil
	}
	s.Wait(reason, message)
	return Result{Stop: true, RequeueAfter: external.AbsenceRetry}, nil
}

// confirmGone is external.ConfirmAbsent with a memory: an object that is gone stays gone, so each object costs one request.
func (s *Scope) confirmGone(ctx context.Context, object goneObject) (bool, error) {
	if s.env.memory.isGone(&s.State, object) {
		return true, nil
	}
	gone, err := external.ConfirmAbsent(ctx, s.env.ports.APIReader, object.gvk, object.name)
	if gone {
		s.env.memory.setGone(&s.State, object)
	}
	return gone, err
}

// forgetDeletion removes what a Machine that is not being deleted records about a deletion. Such records come from a backup that was made
// during a deletion. With them, a later deletion would skip its drain, or reach its limits before it began.
func (s *Scope) forgetDeletion() {
	if !s.State.Deleting.IsZero() || s.paused {
		return
	}
	for _, began := range []struct {
		at   *time.Time
		into *contract.Change[time.Time]
	}{
		{&s.State.PreDrainStarted, &s.update.PreDrainStarted}, {&s.State.DrainStarted, &s.update.DrainStarted},
		{&s.State.VolumeDetachStarted, &s.update.VolumeDetachStarted}, {&s.State.PreTerminateStarted, &s.update.PreTerminateStarted},
	} {
		change(began.at, time.Time{}, began.into)
	}
	s.SetDrained("")
	s.SetVolumesDetached("")
	if _, found := s.State.Annotations[NodeDeletionStartedAnnotation]; found {
		s.changeAnnotation(NodeDeletionStartedAnnotation, contract.Cleared[string]())
	}
}

// confirmInfrastructureGone reports whether the infrastructure object is gone. An object that could not be read is not gone.
func (s *Scope) confirmInfrastructureGone(ctx context.Context) (bool, error) {
	if s.Infrastructure.Presence != external.Absent {
		return false, nil
	}
	gone, err := s.confirmGone(ctx, s.referenced(s.Infrastructure))
	s.infrastructureGone = gone
	return gone, err
}

// removeFinalizerStep removes the finalizer: all objects of the Machine are gone.
func removeFinalizerStep(_ context.Context, s *Scope) (Result, error) {
	s.releaseNode()
	s.recordDeferred()
	s.Assert(condition(ConditionDeleting, metav1.ConditionTrue, ReasonDeletionCompleted, "Deletion completed"))
	s.SetFinalizers(slices.DeleteFunc(slices.Clone(s.State.Finalizers), func(name string) bool {
		return name == s.env.options.Finalizer
	}))
	s.urgent = s.urgent || len(s.State.Finalizers) > 0 // others hold it, and no later pass would say that we are done
	return Result{}, nil
}

// deletionMemory is what a process knows about the deletion of a Machine's objects. An object that the API server confirmed as gone stays
// gone, and a delete request that it accepted is not repeated: caches show both later.
type deletionMemory struct {
	machine types.UID
	gone    map[goneObject]struct{}
	asked   map[types.UID]time.Time
	// drained and detached are the Nodes whose drain and volumes are completed, where the record of that can wait for another write.
	drained, detached types.UID
}

type goneObject struct {
	gvk  schema.GroupVersionKind
	name types.NamespacedName
}

// isGone reports whether an object of a Machine is known to be gone.
func (m *memory) isGone(machine *contract.MachineState, object goneObject) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found := m.deletionLocked(machine).gone[object]
	return found
}

// setDeferred remembers which Nodes were drained and had their volumes detached, until deferred is called.
func (m *memory) setDeferred(machine *contract.MachineState, drained, detached types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.changeDeletionLocked(machine)
	known.drained, known.detached = drained, detached
	m.deletions[machine.Key] = known
}

func (m *memory) deferred(machine *contract.MachineState) (drained, detached types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.deletionLocked(machine)
	return known.drained, known.detached
}

// setGone remembers that an object of a Machine is gone.
func (m *memory) setGone(machine *contract.MachineState, object goneObject) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changeDeletionLocked(machine).gone[object] = struct{}{}
}

// asked returns when the API server accepted the deletion of an object of a Machine, zero before.
func (m *memory) asked(machine *contract.MachineState, object types.UID) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deletionLocked(machine).asked[object]
}

// setAsked remembers that the API server accepted the deletion of an object of a Machine.
func (m *memory) setAsked(machine *contract.MachineState, object types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changeDeletionLocked(machine).asked[object] = m.clock.Now()
}

// deletionLocked returns what is known about the deletion of a Machine, zero when that is nothing.
func (m *memory) deletionLocked(machine *contract.MachineState) deletionMemory {
	if known := m.deletions[machine.Key]; known.machine == machine.UID {
		return known
	}
	return deletionMemory{}
}

func (m *memory) changeDeletionLocked(machine *contract.MachineState) deletionMemory {
	known := m.deletionLocked(machine)
	if known.gone == nil {
		known = deletionMemory{machine: machine.UID, gone: map[goneObject]struct{}{}, asked: map[types.UID]time.Time{}}
		m.deletions[machine.Key] = known
	}
	return known
}
