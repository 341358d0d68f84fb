package machine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// stages returns the stages of a deletion, in order.
func stages() []Stage {
	return []Stage{
		preDrainHooksStage(),
		drainStage(),
		volumesStage(),
		preTerminateHooksStage(),
		{Name: StepDeleteInfrastructure, Reason: contract.ReasonWaitingForInfrastructureDeletion, Run: deleteInfrastructure},
		{Name: StepDeleteBootstrap, Reason: contract.ReasonWaitingForBootstrapDeletion, Run: deleteBootstrap},
		deleteNodeStage(),
		{Name: StepRemoveFinalizer, Reason: contract.ReasonDeletionCompleted, Run: removeFinalizer},
	}
}

// observeStep begins a deletion: a provider ID that an earlier step has set is stored before anything is deleted.
func observeStep(_ context.Context, s *Scope) (Result, error) {
	return Result{Checkpoint: !s.Update.ProviderID.Keeps()}, nil
}

// defaultNodeDeletionTimeout is how long a Machine waits for its Node to be deleted, unless the Machine sets a timeout; the value is
// Cluster API's.
const defaultNodeDeletionTimeout = 10 * time.Second

// keyOf returns the key of a referenced object.
func (s *Scope) keyOf(e external.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: s.State.Key.Namespace, Name: e.Ref.Name}
}

func deleteInfrastructure(ctx context.Context, s *Scope) (Result, error) {
	if err := s.lookUnless(ctx, contract.ConditionInfrastructureReady, &s.Infrastructure, s.State.Infrastructure); err != nil {
		return s.Wait(contract.ReasonWaitingForInfrastructureDeletion, err.Error()), err
	}
	lost := ""
	if s.State.InfrastructureReady.Or(false) || s.State.ProviderID != "" {
		lost = "a machine was made for this Machine and cannot be found without it"
	}
	return s.deleteReferenced(ctx, s.Infrastructure, lost, contract.ReasonWaitingForInfrastructureDeletion)
}

func deleteBootstrap(ctx context.Context, s *Scope) (Result, error) {
	if err := s.lookUnless(ctx, contract.ConditionBootstrapConfigReady, &s.Bootstrap, s.State.Bootstrap); err != nil {
		return s.Wait(contract.ReasonWaitingForBootstrapDeletion, err.Error()), err
	}
	return s.deleteReferenced(ctx, s.Bootstrap, "", contract.ReasonWaitingForBootstrapDeletion)
}

// deleteReferenced deletes a referenced object; see engine.Removal for lost. While the Machine has no provider ID, an object that has
// changed since it was read is a conflict and is read again first: the provider may have created an instance, whose ID would be lost.
func (s *Scope) deleteReferenced(ctx context.Context, e external.Object, lost, reason string) (Result, error) {
	done, err := s.Remove(ctx, e, engine.Removal{
		Reason: reason, Lost: lost, Unchanged: s.State.ProviderID == "", Deletions: &s.memory.requested, Confirm: s.confirmGone,
	})
	return Result{Stop: !done}, err
}

// waitFor is Wait with another pass after the given duration; zero requests none.
func (s *Scope) waitFor(reason, message string, after time.Duration) Result {
	wait := s.Wait(reason, message)
	wait.RequeueAfter = after
	return wait
}

// confirmGone confirms with the API server that an object is gone, with one request for each object that is.
func (s *Scope) confirmGone(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) (bool, error) {
	return s.memory.confirmOnce(gvk.String()+" "+key.String(), func() (bool, error) { return s.ConfirmAbsent(ctx, gvk, key) })
}

// confirmInfrastructureGone reports whether the infrastructure object is gone. An object that could not be read is not gone.
func (s *Scope) confirmInfrastructureGone(ctx context.Context) (bool, error) {
	e := s.Infrastructure
	if e.Presence != external.Absent {
		return false, nil
	}
	gone, err := s.confirmGone(ctx, e.GVK, s.keyOf(e))
	s.infrastructureGone = gone
	return gone, err
}

// removeFinalizer removes the finalizer: all objects of the Machine are gone.
func removeFinalizer(_ context.Context, s *Scope) (Result, error) {
	s.releaseNode()
	s.RemoveFinalizer()
	message, left := "Deletion completed", s.State.Finalizers
	if len(left) > 0 {
		message += ", and these finalizers are left: " + engine.Named(left)
	}
	s.Assert(engine.Condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonDeletionCompleted, message))
	return Result{Checkpoint: len(left) > 0}, nil // other controllers have finalizers too, and no later pass would report the end
}

// preDrainHooksStage waits for pre-drain hooks. It is skipped when the Node is neither drained nor deleted. Rule: Cluster API proposal
// "machine deletion phase hooks".
func preDrainHooksStage() Stage {
	return Stage{
		Name: StepPreDrainHooks, Reason: ReasonWaitingForPreDrainHook, care: true,
		done: func(s *Scope) bool { return s.decidedCare() == careNone },
		Run: func(_ context.Context, s *Scope) (Result, error) {
			return s.waitForHooks(contract.PreDrainHook, ReasonWaitingForPreDrainHook, "pre-drain"), nil
		},
	}
}

// preTerminateHooksStage waits for pre-terminate hooks before the infrastructure is deleted, even if the Node is neither drained nor
// deleted. The first pass that waits is recorded, because the drain ends there.
func preTerminateHooksStage() Stage {
	return Stage{Name: StepPreTerminateHooks, Reason: ReasonWaitingForPreTerminateHook, Run: waitForPreTerminateHooks}
}

func waitForPreTerminateHooks(_ context.Context, s *Scope) (Result, error) {
	result := s.waitForHooks(contract.PreTerminateHook, ReasonWaitingForPreTerminateHook, "pre-terminate")
	if result.Stop && s.heldBy == "" { // the Node of another Machine may still have to be drained
		s.begin(StepPreTerminateHooks)
	}
	return result, nil
}

// waitForHooks checks the hooks in every pass, whatever stage the deletion has reached, because they can be added at any time.
func (s *Scope) waitForHooks(prefix, reason, name string) Result {
	all := slices.Sorted(maps.Keys(s.State.Annotations))
	hooks := slices.DeleteFunc(all, func(key string) bool { return !strings.HasPrefix(key, prefix) })
	if len(hooks) == 0 {
		return Result{}
	}
	if !s.begins(StepDrain).IsZero() {
		s.releaseNode() // a hook that was added late delays a drain too
	}
	return s.Wait(reason, fmt.Sprintf("Waiting for %s hooks to succeed (hooks: %s)", name, strings.Join(hooks, ",")))
}

// drainLimit returns the drain timeout in the Machine's spec. Zero and negative values mean no limit.
func (s *Scope) drainLimit() time.Duration { return s.State.NodeDrainTimeout.Or(0) }

// limitReached reports whether a stage that has begun has reached its limit.
func limitReached(started time.Time, limit time.Duration, now time.Time) bool {
	return limit > 0 && !started.IsZero() && !now.Before(started.Add(limit))
}

// until returns the time until the next pass: the given duration (zero for none), but at the latest when the limit of a stage is reached.
// Starts are recorded in whole seconds, so a limit may end up to a second early.
func (s *Scope) until(after time.Duration, started time.Time, limit time.Duration) time.Duration {
	if limit <= 0 || started.IsZero() {
		return after
	}
	return engine.Soonest(after, max(started.Add(limit).Sub(s.Now), time.Second))
}

func notWithin(limit time.Duration) string { return fmt.Sprintf("not completed within %s", limit) }

// Reasons and actions of the events about stages of a deletion that were not completed.
const (
	// EventDrainFailed, EventVolumeDetachFailed and EventNodeDeletionFailed have Cluster API's reasons.
	EventDrainFailed        = "FailedDrainNode"           // the deletion continues, with Pods still on the Node
	EventVolumeDetachFailed = "FailedWaitForVolumeDetach" // the deletion continues with volumes attached
	EventNodeDeletionFailed = "FailedDeleteNode"          // the deletion continues, and the Node is not deleted
	actionDeleteNode        = "DeleteNode"
)

// Reasons of the events about a Node that is not drained or not deleted without an attempt. They are Warnings, unless an annotation of the
// Machine excludes the drain or the Node is deleted with its Cluster.
const (
	// EventNodeNotDrained: the Node is not drained, or neither drained nor deleted. The note has the reason.
	EventNodeNotDrained = "NodeNotDrained"
	// EventNodeNotDeleted: the Node is not deleted with the Machine.
	EventNodeNotDeleted = "NodeNotDeleted"
	// EventNodeUncordoned: the Node was made schedulable again during its drain.
	EventNodeUncordoned = "NodeUncordoned"
)
