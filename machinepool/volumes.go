package machinepool

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef/workload"
)

// volumesGone reports whether no volume is waited for any more on a Node without pods: an instance that goes with a volume attached
// leaves its pods' successors without it for minutes. Rule: Cluster API's Machine controller.
func (p *Scope) volumesGone(ctx context.Context, node *corev1.Node) (bool, error) {
	_, excluded := p.State.Annotations[contract.ExcludeVolumeDetach]
	if excluded || p.workload.Volumes == nil {
		return true, nil
	}
	limit := p.State.Template.NodeVolumeDetachTimeout.Or(0)
	began := p.mem().detaches(p.workload.Volumes, node.Name, p.Now)
	if reached(began, limit, p.Now) { // whether volumes can be read or not
		p.Eventf(corev1.EventTypeWarning, EventVolumesLeft, pass.ActionReconcile, "Volumes of Node %s were not detached within %s: going on without", node.Name, limit)
		return true, nil
	}
	result, err := p.workload.Volumes.StepVolumes(ctx, runner.VolumeRequest{
		Node: node, Owner: p.State.Key, Rules: p.env.options.Policy.DrainRules, StartedAt: began, Timeout: limit,
	})
	if err != nil {
		return false, fmt.Errorf("wait for the volumes of Node %s: %w", node.Name, err)
	}
	p.Requeue(result.RequeueAfter)
	p.requeueAt(began, limit)
	if !result.Done {
		if p.attached == nil {
			p.attached = map[string]string{}
		}
		p.attached[node.Name] = result.Message
	}
	return result.Done, nil
}

// detaches remembers the interest in the volumes of a Node, and returns since when there is one.
func (r *recollection) detaches(v workload.Volumes, node string, now time.Time) time.Time {
	r.volumes = v
	if _, known := r.detaching[node]; !known {
		r.detaching[node] = now
	}
	return r.detaching[node]
}
