package machine

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/patch"
)

// DefaultNodeDeletionTimeout limits how long a Machine waits for its Node to go, unless the Machine says otherwise; the
// value is Cluster API's.
const DefaultNodeDeletionTimeout = 10 * time.Second

func (s *Scope) refKey(e external.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: s.State.Key.Namespace, Name: e.Ref.Name}
}

func deleteInfrastructureStep(ctx context.Context, s *Scope) (Result, error) {
	if err := s.lookUnless(ctx, &s.Infrastructure, s.State.Infrastructure); err != nil {
		return s.Wait(ReasonWaitingForInfrastructureDeletion, err.Error()), err
	}
	mattered := s.State.InfrastructureReady.Or(false) || s.State.ProviderID != ""
	going := s.isGoing(s.Infrastructure)
	result, err := s.deleteReferenced(ctx, s.Infrastructure, mattered, ReasonWaitingForInfrastructureDeletion)
	if !going && s.isGoing(s.Infrastructure) {
		s.deferDrained()
	}
	return result, err
}

// deferDrained lets the record of what this very pass has finished, drain and volumes, wait for the next write: the machine is
// going, which says enough to do neither again. The events are for now.
func (s *Scope) deferDrained() {
	done := contract.MachineUpdate{DrainedNode: s.update.DrainedNode, VolumesDetachedNode: s.update.VolumesDetachedNode}
	drained, _ := done.DrainedNode.Value()
	detached, _ := done.VolumesDetachedNode.Value()
	if drained == "" && detached == "" {
		return
	}
	s.env.memory.doneWith(&s.State, drained, detached)
	s.update.DrainedNode, s.update.VolumesDetachedNode = contract.Change[types.UID]{}, contract.Change[types.UID]{}
	s.record(drainEvents(done, s.State.Node.Name))
}

// recordDeferred has what was deferred written with the finalizer, for whoever holds the Machine longer.
func (s *Scope) recordDeferred() {
	drained, detached := s.env.memory.doneBefore(&s.State)
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

func (s *Scope) deleteReferenced(ctx context.Context, e external.Object, mattered bool, reason string) (Result, error) {
	action, message := decideRemoval(e, mattered)
	switch action {
	case removalDone:
		return Result{}, nil
	case removalDelete:
		switch err := s.deleteExternal(ctx, e); {
		case err != nil && patch.Retryable(err):
			return s.Wait(reason, message), err
		case err != nil:
			return s.Wait(reason, err.Error()), err
		}
	case removalConfirm:
		return s.continueWhenGone(ctx, e.GVK, s.refKey(e), reason, message)
	case removalConfirmKind:
		crd := types.NamespacedName{Name: contract.CRDName(e.Ref.GroupKind())}
		return s.continueWhenGone(ctx, external.CRDGVK(), crd, reason, message)
	case removalWait:
	}
	wait := s.Wait(reason, message)
	wait.RequeueAfter = e.RetryAfter
	return wait, nil
}

// continueWhenGone goes on when the API server itself says that an object is gone, and looks again soon when it does not.
func (s *Scope) continueWhenGone(
	ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName, reason, message string,
) (Result, error) {
	gone, err := s.confirmGone(ctx, gvk, key)
	if err != nil {
		return s.Wait(reason, err.Error()), err
	}
	if gone {
		return Result{}, nil
	}
	s.Wait(reason, message)
	return Result{Stop: true, RequeueAfter: external.AbsenceRetry}, nil
}

// confirmGone is confirmAbsent with a memory: an object that was gone stays gone, so each is asked about once.
func (s *Scope) confirmGone(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) (bool, error) {
	object := goneObject{gvk: gvk, name: key}
	if s.env.memory.isGone(&s.State, object) {
		return true, nil
	}
	gone, err := external.ConfirmAbsent(ctx, s.env.ports.APIReader, gvk, key)
	if gone {
		s.env.memory.setGone(&s.State, object)
	}
	return gone, err
}

// forgetDeletion drops what a Machine that lives says of a deletion: it comes from a backup that was made in the midst of one. A later
// deletion would skip its drain, or find limits reached before it began.
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

// confirmInfrastructureGone reports whether the infrastructure object is gone. What could not be read is not.
func (s *Scope) confirmInfrastructureGone(ctx context.Context) (bool, error) {
	if s.Infrastructure.Presence != external.Absent {
		return false, nil
	}
	gone, err := s.confirmGone(ctx, s.Infrastructure.GVK, s.refKey(s.Infrastructure))
	s.infrastructureGone = gone
	return gone, err
}

// removeFinalizerStep lets the Machine go: everything of it is gone.
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
