package machinepool

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

// Reasons of the events that the reconciler records on a pool.
const (
	// EventNodesMatched: Nodes were recorded as the pool's, those that are new ones alone. It is Cluster API's, which records it in
	// every pass.
	EventNodesMatched = "SuccessfulSetNodeRefs"
	// EventNodeDrained: a Node was drained because its instance leaves.
	EventNodeDrained = "SuccessfulDrainNode"
	// EventVolumesLeft: volumes were not detached in time.
	EventVolumesLeft = "NodeVolumesLeftAttached"
	// EventNodeDeleted: a Node was deleted because its instance has left.
	EventNodeDeleted = "SuccessfulDeleteNode"
	// EventMachinesCreated and EventMachineDeleted are about Machines that stand for instances.
	EventMachinesCreated = "SuccessfulCreate"
	EventMachineDeleted  = "SuccessfulDelete"
	// EventDrainFailed and EventNodeDeletionFailed: a deletion goes on without.
	EventDrainFailed        = "FailedDrainNode"
	EventNodeDeletionFailed = "FailedDeleteNode"
)

// tellNodes records the Nodes that are new in a list.
func (p *Scope) tellNodes(stored, written []contract.NodeRef) {
	known := make(map[contract.NodeRef]struct{}, len(stored))
	for _, ref := range stored {
		known[ref] = struct{}{}
	}
	var joined []string
	for _, ref := range written {
		if _, found := known[ref]; !found {
			joined = append(joined, ref.Name)
		}
	}
	if len(joined) > 0 {
		p.Eventf(corev1.EventTypeNormal, EventNodesMatched, pass.ActionReconcile, "%s", pass.Named(joined))
	}
}
