package machinepool

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
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

	actionReconcile = "Reconcile"
	maxNoteLength   = 1000 // events.k8s.io/v1 allows 1,024 bytes
)

func (p *pass) tell(kind, reason, note string, args ...any) {
	if p.env.options.Recorder != nil {
		p.env.options.Recorder.Eventf(p.pool, nil, kind, reason, actionReconcile, "%s", bounded(fmt.Sprintf(note, args...), maxNoteLength))
	}
}

// tellConditions records those conditions that come to say something that a person has to mend.
func (p *pass) tellConditions(stored, written []metav1.Condition) {
	for _, c := range written {
		old, found := findCondition(stored, c.Type)
		if slices.Contains(troubles(), c.Reason) && (!found || old.Reason != c.Reason || old.Status != c.Status) {
			p.tell(corev1.EventTypeWarning, c.Reason, "%s: %s", c.Type, c.Message)
		}
	}
}

// tellNodes records the Nodes that are new in a list.
func (p *pass) tellNodes(stored, written []contract.NodeRef) {
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
		p.tell(corev1.EventTypeNormal, EventNodesMatched, "%s", named(joined))
	}
}
