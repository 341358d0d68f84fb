package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef"
)

// Reasons of the events about the volumes of a Node. They are recorded only if the deletion had to wait.
const (
	EventVolumesDetached = "NodeVolumesDetached"     // the last volume was detached
	EventVolumesLeft     = "NodeVolumesLeftAttached" // the limit of the wait is over, with volumes still attached
	actionDetachVolumes  = "WaitForVolumeDetach"
)

// volumesStage waits for the volumes of the Node of a Machine, once, after its drain.
func volumesStage() Stage {
	return Stage{
		Name: StepVolumes, Reason: ReasonWaitingForVolumeDetach, Excluded: (*Scope).whyNoVolumes, Limit: (*Scope).volumesLimit,
		Run: checkVolumes, done: (*Scope).areVolumesDone, after: (*Scope).releaseNode, care: true, nodes: true,
		confirm: (*Scope).confirmForNode, failed: EventVolumeDetachFailed, action: actionDetachVolumes,
		failure: "error waiting for node volumes detaching Machine's node %q: %s: the deletion continues without",
		exits:   "set the annotation " + contract.ExcludeVolumeDetach + " or a timeout of the wait for volumes",
	}
}

func (s *Scope) volumesLimit() time.Duration { return s.State.NodeVolumeDetachTimeout.Or(0) }

func (s *Scope) whyNoVolumes() string {
	return s.whyNoNodeStage(contract.ExcludeVolumeDetach, s.Workload.Volumes == nil)
}

// areVolumesDone reports whether the deletion does not, or no longer, wait for volumes. After the wait for pre-terminate hooks has begun,
// the API server of the Node may be gone (Cluster API #11590). An instance that is gone or being deleted unmounts no volumes. The drain has
// reported a Node that is unclear.
func (s *Scope) areVolumesDone() bool {
	return s.waitsForHooks() || s.instanceLeaves() || s.deletion.HasEnded(StepVolumes, s.nodeUID()) ||
		s.NodesSynced && s.Node.Outcome != noderef.Matched && s.Node.Outcome != noderef.Readopted
}

// checkVolumes checks which volumes are attached. The start of the wait is recorded only if there are any: a Machine without volumes costs
// no write.
func checkVolumes(ctx context.Context, s *Scope) (Result, error) {
	var result runner.VolumesResult
	rules, err := s.drainRules(ctx)
	if err == nil {
		s.watchNode()
		result, err = s.Workload.Volumes.StepVolumes(ctx, runner.Request{
			Node: s.Node.Node, Owner: s.State.Key, Rules: rules, StartedAt: s.begins(StepVolumes), PoweredOff: s.PoweredOff,
		}, s.volumesLimit())
	}
	switch {
	case err != nil:
		return s.nodeFailed(ReasonWaitingForVolumeDetach, s.volumesMessage(err.Error()), "wait for the volumes of", err)
	case result.Done:
		s.volumesEnded(result)
		return Result{}, nil
	}
	begins := len(result.Attached) > 0 && s.begin(StepVolumes) // otherwise it is unknown yet whether volumes are attached
	wait := s.waitFor(ReasonWaitingForVolumeDetach, s.volumesMessage(result.Message), result.RequeueAfter)
	wait.Checkpoint = begins
	return wait, nil
}

func (s *Scope) volumesMessage(why string) string {
	first := "Waiting for Node volumes to be detached"
	if started := s.begins(StepVolumes); !started.IsZero() {
		first += fmt.Sprintf(" (started at %s)", started.UTC().Format(time.RFC3339))
	}
	return first + "\n" + why
}

// volumesEnded continues when the wait is over. It records the end if a pass waited, or if the record is written in this pass anyway;
// otherwise no later pass needs it.
func (s *Scope) volumesEnded(result runner.VolumesResult) {
	switch {
	case result.Stopped != drain.VolumesNotStopped:
		s.addEvent(corev1.EventTypeWarning, EventVolumesLeft, actionDetachVolumes, result.Message)
	case !s.begins(StepVolumes).IsZero():
		s.addEvent(corev1.EventTypeNormal, EventVolumesDetached, actionDetachVolumes,
			fmt.Sprintf("success waiting for node volumes detaching Machine's node %q", s.State.Node.Name))
	}
	_, writes := s.Update.Annotations[contract.DeletionAnnotation]
	if writes || !s.begins(StepVolumes).IsZero() || result.Stopped != drain.VolumesNotStopped {
		s.end(StepVolumes, s.Node.Node.UID)
	}
}
