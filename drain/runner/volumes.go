package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

const volumesUnlisted = "* waiting for the lists of VolumeAttachments and PersistentVolumes; if this lasts, look for missing list " +
	"and watch permissions"

// VolumeRef names one volume that is still attached to a Node.
type VolumeRef = drain.VolumeRef

// VolumeRequest says of which Node to wait for the volumes.
type VolumeRequest struct {
	// Node as the caller last observed it. It is shared and not changed.
	Node *corev1.Node
	// Owner is enqueued through [Runner.Source] when something changes about the Node's volumes or pods.
	Owner types.NamespacedName
	// Rules replaces the planner's rules for this Node when it is not nil. They say whose volumes stay: those of ignored pods.
	Rules []drain.Rule
	// StartedAt is when the wait began. The caller records it, so that Timeout counts over restarts.
	StartedAt time.Time
	// Timeout ends the wait so long after StartedAt; 0 means never. An unsynced cache is not taken for the end: who wants a
	// limit to hold even then looks at the clock itself.
	Timeout time.Duration
	// UnreachableAfter ends the wait when the Node's Ready condition has been Unknown for so long; 0 means 5 min, negative
	// never. Nothing is unmounted on a Node that does not answer.
	UnreachableAfter time.Duration
	// PoweredOff ends the wait: the provider has confirmed that the machine is off.
	PoweredOff bool
}

// VolumesResult is where the wait for the volumes of a Node stands.
type VolumesResult struct {
	// Done: nothing is waited for any more. Stopped says whether volumes were left.
	Done    bool
	Stopped drain.VolumeStop
	// Attached are the volumes in the way, sorted; those that were left when the wait was stopped.
	Attached []VolumeRef
	// Message says what is waited for, in Cluster API's lines without their first one; empty when Done and nothing was left.
	// Equal states give equal messages.
	Message string
	// RequeueAfter is when to call again even if nothing wakes the owner; 0 when Done.
	RequeueAfter time.Duration
}

// StepVolumes says whether a Node's volumes are detached, as far as the deletion of its machine has to wait for that (see
// [drain.VolumePlanner]). It is a stage of its own, called after the drain is Done, at any rate, also by another process
// after a crash. It sends no request and waits for nothing. It looks at the Node's pods only while volumes are attached;
// call [Runner.Release] afterwards. Config.Volumes is required.
//
// Errors: the volumes or the pods cannot be read, or [ErrStopped]. Done is false then, and while a cache is not synced.
func (r *Runner) StepVolumes(ctx context.Context, req VolumeRequest) (VolumesResult, error) {
	if r.cfg.Volumes == nil {
		return VolumesResult{}, errors.New("wait for volumes: set Config.Volumes")
	}
	if err := errors.Join(ctx.Err(), r.enter(&Request{Node: req.Node, Owner: req.Owner})); err != nil {
		return VolumesResult{}, err
	}
	attachments, synced, err := r.attachments(req.Node.Name)
	if err != nil {
		return VolumesResult{}, fmt.Errorf("wait for volumes of node %s: %w", req.Node.Name, err)
	}
	if !synced {
		return VolumesResult{Message: volumesUnlisted, RequeueAfter: r.cfg.ProbeInterval}, nil
	}
	now := r.cfg.Clock.Now()
	unreachable, wait := unreachable(req.Node, req.UnreachableAfter, now)
	facts := drain.VolumeFacts{
		Now: now, Node: req.Node, Attachments: attachments, Lookup: r.cfg.Volumes,
		StartedAt: req.StartedAt, Timeout: req.Timeout, Unreachable: unreachable, PoweredOff: req.PoweredOff,
	}
	plan, err := r.cfg.VolumePlanner.Plan(facts)
	if err != nil {
		return VolumesResult{}, fmt.Errorf("wait for volumes of node %s: %w", req.Node.Name, err)
	}
	if !plan.Done() {
		pods, synced, err := r.podsOf(req.Node.Name, req.Node.UID)
		if errors.Is(err, errReleased) {
			return VolumesResult{Message: "* the wait was cancelled", RequeueAfter: soon}, nil
		}
		if err != nil {
			return VolumesResult{}, fmt.Errorf("wait for volumes of node %s: %w", req.Node.Name, err)
		}
		if !synced {
			return VolumesResult{Message: "* waiting for the list of Pods of the Node", RequeueAfter: r.cfg.ProbeInterval}, nil
		}
		facts.Decisions = r.cfg.Planner.Plan(
			[]drain.NodePods{{Node: req.Node.Name, Pods: pods, Rules: req.Rules}}, drain.Facts{Now: now}).Decisions
		if plan, err = r.cfg.VolumePlanner.Plan(facts); err != nil {
			return VolumesResult{}, fmt.Errorf("wait for volumes of node %s: %w", req.Node.Name, err)
		}
	}
	return r.reportVolumes(req, plan, now, wait), nil
}

// attachments asks the source. The error says why a source of this package cannot know them.
func (r *Runner) attachments(node string) ([]*storagev1.VolumeAttachment, bool, error) {
	attachments, synced := r.cfg.Volumes.Attachments(node)
	if synced {
		return attachments, true, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return nil, false, r.volumesErr
}

func (r *Runner) reportVolumes(req VolumeRequest, plan drain.VolumePlan, now time.Time, unreachableIn time.Duration) VolumesResult {
	result := VolumesResult{Done: plan.Done(), Stopped: plan.Stopped, Message: plan.Summary(0)}
	for _, d := range plan.Blocking() {
		result.Attached = append(result.Attached, d.VolumeRef)
	}
	if result.Done {
		if plan.Stopped != drain.VolumesNotStopped {
			left := drain.VolumePlan{Volumes: plan.Volumes}
			result.Message = fmt.Sprintf("* not waiting any more (%s), still attached:\n%s", plan.Stopped, left.Summary(0))
		}
		return result
	}
	result.RequeueAfter = r.cfg.ProbeInterval
	if unreachableIn > 0 {
		result.RequeueAfter = min(result.RequeueAfter, unreachableIn)
	}
	if req.Timeout > 0 && !req.StartedAt.IsZero() {
		result.RequeueAfter = min(result.RequeueAfter, req.StartedAt.Add(req.Timeout).Sub(now))
	}
	return result
}

// unreachable says whether a Node has not answered for so long, or how long it still has; 0 when it answers. The condition
// is kube-controller-manager's, which sets it about 40 s after the kubelet's last sign.
func unreachable(node *corev1.Node, after time.Duration, now time.Time) (bool, time.Duration) {
	if after == 0 {
		after = 5 * time.Minute
	}
	if after < 0 {
		return false, 0
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type != corev1.NodeReady || c.Status != corev1.ConditionUnknown {
			continue
		}
		left := after - now.Sub(c.LastTransitionTime.Time)
		return left <= 0, max(0, left)
	}
	return false, 0
}

// takeTurns decides which pods with volumes may leave a Node, when the policy lets them leave one after the other.
func (r *Runner) takeTurns(req *Request, pods []*corev1.Pod) {
	r.mu.Lock()
	var prev *drain.VolumeTurns
	if ns := r.nodes[req.Node.Name]; ns != nil {
		prev = ns.turns
	}
	r.mu.Unlock()
	var next *drain.VolumeTurns
	if serial := req.policy().SerialVolumes; serial != nil {
		next = r.nextTurns(serial, prev, req.Node, pods)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ns := r.nodes[req.Node.Name]; ns != nil && ns.uid == req.Node.UID {
		ns.turns = next
	}
}

// nextTurns calls the source, so it must not hold the lock: events of the source take it.
func (r *Runner) nextTurns(serial *drain.SerialVolumes, prev *drain.VolumeTurns, node *corev1.Node, pods []*corev1.Pod) *drain.VolumeTurns {
	attachments, synced, err := r.attachments(node.Name)
	if err != nil {
		return serial.UnknownVolumes(prev, err.Error())
	}
	if !synced {
		return serial.UnknownVolumes(prev, "waiting for the list of VolumeAttachments")
	}
	now := r.cfg.Clock.Now()
	plan, err := r.cfg.VolumePlanner.Plan(drain.VolumeFacts{Now: now, Node: node, Attachments: attachments, Lookup: r.cfg.Volumes})
	if err != nil {
		return serial.UnknownVolumes(prev, err.Error())
	}
	return serial.Next(prev, drain.TurnFacts{
		Now: now, Volumes: plan, Pods: pods,
		Elsewhere: func(volume string) bool { return attachedElsewhere(r.cfg.Volumes.AttachmentsOf(volume), node.Name) },
	})
}

func attachedElsewhere(attachments []*storagev1.VolumeAttachment, node string) bool {
	for _, a := range attachments {
		if a.Spec.NodeName != node && a.Status.Attached && a.DeletionTimestamp == nil {
			return true
		}
	}
	return false
}

// turnsOf returns what the planner needs; nil when pods with volumes go like any others.
func (ns *nodeState) turnsOf(node string) map[string]*drain.VolumeTurns {
	if ns.turns == nil {
		return nil
	}
	return map[string]*drain.VolumeTurns{node: ns.turns}
}

// reportTurns adds to a report what turns wait for.
func (ns *nodeState) reportTurns(result *Result, now time.Time) {
	if ns.turns == nil {
		return
	}
	for i := range ns.turns.Waits {
		result.Volumes = append(result.Volumes, ns.turns.Waits[i].VolumeRef)
	}
	if text := ns.turns.Summary(0); text != "" {
		if result.Message != "" {
			text += "\n" + result.Message
		}
		result.Message = text
	}
	if next := ns.turns.Deadline(); !next.IsZero() {
		result.RequeueAfter = min(result.RequeueAfter, max(next.Sub(now), time.Millisecond))
	}
}

// runVolumes runs the source, one of this package with the Runner's clock, words and patience.
func (r *Runner) runVolumes(ctx context.Context) error {
	cached, ok := r.cfg.Volumes.(*CachedVolumes)
	switch {
	case !ok:
		return r.cfg.Volumes.Run(ctx, r.volumeChanged)
	case r.impatient:
		return cached.run(ctx, r.volumeChanged, nil)
	}
	return cached.run(ctx, r.volumeChanged, r.patience(&r.volumesErr))
}

// volumeChanged wakes the owners of the Node, and of those that wait for the volume to get somewhere else.
func (r *Runner) volumeChanged(node, volume string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeLocked(node)
	for name, ns := range r.nodes {
		if ns.turns == nil || name == node || volume == "" {
			continue
		}
		for i := range ns.turns.Waits {
			if ns.turns.Waits[i].PV == volume {
				r.wakeLocked(name)
				break
			}
		}
	}
}
