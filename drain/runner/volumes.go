package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/machinist-dev/machinist/drain"
)

// VolumesResult is the state of the wait for the volumes of a Node.
type VolumesResult struct {
	// Done: the wait is over. If volumes remained, Stopped is the reason.
	Done    bool
	Stopped drain.VolumeStop
	// Attached are the volumes that block, sorted; or those that remained when the wait was stopped.
	Attached []drain.VolumeRef
	// Message lists what is waited for, in the lines of Cluster API without the first one; empty when Done and no volume remained. Equal
	// states have equal messages.
	Message string
	// RequeueAfter is when to call again even if the owner is not enqueued; 0 when Done.
	RequeueAfter time.Duration
}

// StepVolumes reports whether the volumes of a Node are detached, as far as the deletion of its machine waits for that (see
// [drain.PlanVolumes]). Call it after the drain is Done, at any rate, also from another process after a crash. It sends no request and does
// not wait. It reads the Pods of the Node only while volumes are attached; call [Runner.Release] afterwards. It requires a Runner of
// [NewForCluster] or [AddToManager].
//
// The request is that of the drain, with the start of this wait as its StartedAt. The volumes of Pods that its rules ignore are not waited
// for, and PoweredOff ends the wait; its policy is ignored. timeout ends the wait this long after StartedAt; 0 means never. It does not end
// the wait while a cache is not synced: a caller that needs that must check the time itself.
//
// It returns an error when the volumes or the Pods cannot be read, or after the end of Start. Done is false then, and while a cache is not
// synced.
func (r *Runner) StepVolumes(_ context.Context, req Request, timeout time.Duration) (VolumesResult, error) {
	if r.lists == nil {
		return VolumesResult{}, errors.New("wait for volumes: this Runner has no lists, use NewForCluster")
	}
	ns, err := r.enter(&req)
	if err != nil {
		return VolumesResult{}, err
	}
	now := r.cfg.Clock.Now()
	plan, err := r.planVolumes(ns, &req, timeout, now)
	switch {
	case errors.Is(err, ErrNotListed):
		return VolumesResult{Message: "* " + err.Error(), RequeueAfter: probeInterval}, nil
	case err != nil:
		return VolumesResult{}, fmt.Errorf("wait for volumes of node %s: %w", req.Node.Name, err)
	}
	result := VolumesResult{Done: plan.Done(), Stopped: plan.Stopped, Attached: plan.Blocking, Message: plan.Summary()}
	switch {
	case plan.Stopped != drain.VolumesNotStopped:
		result.Message = fmt.Sprintf("* not waiting any more (%s), still attached:\n%s", plan.Stopped, result.Message)
	case !result.Done:
		result.RequeueAfter = probeInterval
	}
	return result, nil
}

// planVolumes reads the Pods of the Node only if volumes block without them, and PersistentVolumes only if some are attached.
func (r *Runner) planVolumes(ns *nodeState, req *Request, timeout time.Duration, now time.Time) (plan drain.VolumePlan, err error) {
	attached, volumes := r.lists.attachments(), r.lists.volumes()
	if err := attached.missing(); err != nil {
		return plan, err
	}
	attachments := under[storagev1.VolumeAttachment](attached, byNode, req.Node.Name)
	if err := volumes.missing(); err != nil && len(attachments)+len(req.Node.Status.VolumesAttached) > 0 {
		return plan, err
	}
	facts := drain.VolumeFacts{
		Now: now, Node: req.Node, Attachments: attachments, StartedAt: req.StartedAt, Timeout: timeout, PoweredOff: req.PoweredOff,
		Volume: func(name string) (*corev1.PersistentVolume, error) {
			return named[corev1.PersistentVolume](volumes, name), nil
		},
	}
	if plan, err = drain.PlanVolumes(facts); err != nil || plan.Done() {
		return plan, err
	}
	pods, err := r.podsOf(ns)
	if err != nil {
		return plan, err
	}
	nodes := []drain.NodePods{{Node: req.Node.Name, Pods: pods}}
	facts.Decisions = drain.Planner{Rules: req.Rules}.Plan(nodes, drain.Facts{}).Decisions
	return drain.PlanVolumes(facts)
}
