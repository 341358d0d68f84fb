package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// Reasons of the events about the volumes of a Node. Neither is recorded when the deletion did not have to wait.
const (
	EventVolumesDetached = "NodeVolumesDetached"     // the last volume was detached
	EventVolumesLeft     = "NodeVolumesLeftAttached" // the limit of the wait is over, and volumes are still attached
	actionDetachVolumes  = "WaitForVolumeDetach"
)

type volumesAction uint8

const (
	volumesSkip volumesAction = iota
	volumesUnread
	volumesCheck
	volumesGiveUp
)

// decideVolumes decides about the volumes of the Node of a Machine that is being deleted, after its drain. The deletion waits for them
// once. Once the wait for pre-terminate hooks has begun, the Node may have lost its API server (Cluster API #11590); and an instance that
// is gone or being deleted unmounts no volumes.
func decideVolumes(f nodeStageFacts) (volumesAction, string) {
	switch {
	case f.Excluded != "" || f.Care == careNone || !f.begins(contract.StagePreTerminateHooks).IsZero():
		return volumesSkip, ""
	case f.InstanceGone || f.InfrastructureGone || f.Infrastructure.Deleting():
		return volumesSkip, ""
	case !f.NodesSynced:
		return decideUnreadVolumes(f)
	case f.Match.Outcome != noderef.Matched && f.Match.Outcome != noderef.Readopted: // their Node is unclear, as the drain reported
		return volumesSkip, ""
	case f.Deletion.HasEnded(contract.StageVolumes, f.Match.Node.UID):
		return volumesSkip, ""
	case limitReached(f.begins(contract.StageVolumes), f.Limit, f.Now):
		return volumesGiveUp, notWithin(f.Limit)
	}
	return volumesCheck, ""
}

// decideUnreadVolumes: a completed wait for the recorded Node is not repeated.
func decideUnreadVolumes(f nodeStageFacts) (volumesAction, string) {
	switch {
	case f.Deletion.HasEnded(contract.StageVolumes, f.State.Node.UID):
		return volumesSkip, ""
	case f.Skipped:
		return volumesGiveUp, f.Unread
	}
	return volumesUnread, f.Unread
}

func volumesStep(ctx context.Context, s *Scope) (Result, error) {
	facts, err := s.nodeStageFacts(ctx, nodeStage{
		step: StepVolumes, exclude: contract.ExcludeVolumeDetach, impossible: s.Workload.Volumes == nil,
		started: s.begins(contract.StageVolumes), limit: s.State.NodeVolumeDetachTimeout.Or(0),
	})
	if err != nil {
		return Result{}, err
	}
	switch action, message := decideVolumes(facts); action {
	case volumesUnread:
		if facts.Limit > 0 {
			s.begin(contract.StageVolumes) // the limit counts from here, or it would never be reached
		}
		return s.waitUnread(ReasonWaitingForVolumeDetach, s.volumesMessage(message), s.begins(contract.StageVolumes), facts.Limit)
	case volumesCheck:
		return s.checkVolumes(ctx, facts.Limit)
	case volumesGiveUp:
		s.reportSkipped(EventVolumeDetachFailed, actionDetachVolumes, fmt.Sprintf(
			"error waiting for node volumes detaching Machine's node %q: %s: the deletion goes on without", s.State.Node.Name, message))
	case volumesSkip:
	}
	s.releaseNode()
	return Result{}, nil
}

// checkVolumes looks up which volumes are attached. The start of the wait is recorded when there are any: a Machine without volumes costs
// no write.
func (s *Scope) checkVolumes(ctx context.Context, limit time.Duration) (Result, error) {
	var result runner.VolumesResult
	rules, err := s.drainRules(ctx)
	if err == nil {
		s.watchNode()
		result, err = s.Workload.Volumes.StepVolumes(ctx, runner.VolumeRequest{
			Node: s.Node.Node, Owner: s.State.Key, Rules: rules, StartedAt: s.begins(contract.StageVolumes), Timeout: limit,
			PoweredOff: s.PoweredOff,
		})
	}
	switch {
	case cluster.IsUnread(err):
		return s.volumesUnknown(err.Error(), limit, Result{Stop: true, RequeueAfter: engine.ConflictRetry}), nil
	case err != nil:
		s.volumesUnknown(err.Error(), limit, Result{})
		return Result{}, fmt.Errorf("wait for the volumes of Node %s: %w", s.Node.Node.Name, err)
	case result.Done:
		s.volumesEnded(result)
		return Result{}, nil
	case len(result.Attached) == 0: // it is not known yet whether volumes are attached
		return s.volumesUnknown(result.Message, limit, Result{Stop: true, RequeueAfter: result.RequeueAfter}), nil
	}
	checkpoint := s.begin(contract.StageVolumes)
	s.Wait(ReasonWaitingForVolumeDetach, s.volumesMessage(result.Message))
	return Result{Stop: true, Checkpoint: checkpoint, RequeueAfter: s.until(result.RequeueAfter, s.begins(contract.StageVolumes), limit)}, nil
}

// volumesUnknown waits until the volumes can be read. A limit counts from here, or it would never be reached.
func (s *Scope) volumesUnknown(why string, limit time.Duration, result Result) Result {
	if limit > 0 && (s.NodesSynced || s.isTold()) {
		result.Checkpoint = s.begin(contract.StageVolumes)
		result.RequeueAfter = s.until(result.RequeueAfter, s.begins(contract.StageVolumes), limit)
	}
	s.Wait(ReasonWaitingForVolumeDetach, s.volumesMessage(why))
	return result
}

func (s *Scope) volumesMessage(why string) string {
	first := "Waiting for Node volumes to be detached"
	if started := s.begins(contract.StageVolumes); !started.IsZero() {
		first += fmt.Sprintf(" (started at %s)", started.UTC().Format(time.RFC3339))
	}
	return first + "\n" + why
}

// volumesEnded continues when the wait is over. It records that if a pass waited, or if the drain is recorded in this pass, because both
// are then one write; otherwise no later pass needs the record.
func (s *Scope) volumesEnded(result runner.VolumesResult) {
	waited := !s.begins(contract.StageVolumes).IsZero()
	switch {
	case result.Stopped != drain.VolumesNotStopped:
		s.tell(corev1.EventTypeWarning, EventVolumesLeft, actionDetachVolumes, result.Message)
	case waited:
		s.tell(corev1.EventTypeNormal, EventVolumesDetached, actionDetachVolumes,
			fmt.Sprintf("success waiting for node volumes detaching Machine's node %q", s.State.Node.Name))
	}
	ended := waited || result.Stopped != drain.VolumesNotStopped
	s.urgent = s.urgent || ended // the event waits for the write
	if ended || slices.Contains(s.ended, contract.StageDrain) {
		s.end(contract.StageVolumes, s.Node.Node.UID)
	}
	s.releaseNode()
}
