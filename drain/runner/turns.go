package runner

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/machinist-dev/machinist/drain"
)

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

// reportTurns adds the volumes that are waited for to a result.
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
	result.againAt(ns.turns.Deadline(), now)
}

// volumeChanged wakes the owner of the Node, and those of Nodes that wait until the volume is attached elsewhere.
func (r *Runner) volumeChanged(node, volume string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ns := range r.ring {
		waits := ns.turns != nil && volume != "" &&
			slices.ContainsFunc(ns.turns.Waits, func(w drain.VolumeWait) bool { return w.PV == volume })
		if waits || ns.name == node {
			r.wakeLocked(ns)
		}
	}
}
