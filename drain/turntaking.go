package drain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// settleInTurn settles all decisions of a Node: first Pods that take no turn, in the order of the plan; then Pods with volumes by priority,
// as long as a turn is free.
func (t *VolumeTurns) settleInTurn(ds []Decision, held map[types.UID]Hold, settle func(*Decision)) {
	taken := t.busy()
	var queue []*Decision
	for i := range ds {
		d := &ds[i]
		switch {
		case !t.Concerns(d.Pod):
			settle(d)
		case d.Action != Evict && d.Action != Delete, outsideOrders(d): // a deadline does not wait for volumes
			settle(d)
			taken += t.turns(d)
		case underWay(held[d.Pod.UID].Reason): // it was requested, and keeps its turn whatever its priority
			settle(d)
			taken++
		default:
			queue = append(queue, d)
		}
	}
	slices.SortStableFunc(queue, func(a, b *Decision) int { return cmp.Compare(priority(b.Pod), priority(a.Pod)) })
	for _, d := range queue {
		switch {
		case t.unknown != "":
			d.hold(Wait, ReasonVolumeTurn, t.unknown)
		case taken >= t.policy.MaxParallel:
			d.hold(Wait, ReasonVolumeTurn, "waiting until the volumes of other Pods have left the Node")
		default:
			settle(d)
			taken += t.turns(d)
		}
	}
}

// underWay reports that the Pod may be evicted, or have been evicted, without another planned request.
func underWay(r Reason) bool {
	switch r {
	case ReasonEvictionRequested, ReasonEvictionAccepted, ReasonThrottled, ReasonUnauthorized, ReasonUnknownOutcome:
		return true
	default:
		return false
	}
}

// turns returns how many turns a decision takes: 1 or 0.
func (t *VolumeTurns) turns(d *Decision) int {
	switch {
	case d.Action == Ignore:
		return 0
	case d.Pod.DeletionTimestamp != nil:
		if t.now.Before(d.Pod.DeletionTimestamp.Add(t.policy.TerminateTimeout)) {
			return 1
		}
		return 0
	case d.Action == Evict || d.Action == Delete || underWay(d.Reason):
		return 1
	default:
		return 0
	}
}

// busy counts the turns that volumes take after their Pods. The volumes of one Pod take one turn.
func (t *VolumeTurns) busy() int {
	pods, unseen := map[types.UID]bool{}, 0
	for i := range t.Waits {
		switch w := &t.Waits[i]; {
		case w.Overdue:
		case w.Pod.UID == "":
			unseen++
		default:
			pods[w.Pod.UID] = true
		}
	}
	return len(pods) + unseen
}

// Concerns reports whether a Pod takes a turn: it has a claim whose volume is attached to the Node and is waited for. Finished Pods use no
// volumes.
func (t *VolumeTurns) Concerns(pod *corev1.Pod) bool {
	if t == nil || finished(pod) {
		return false
	}
	for _, claim := range claimsOf(pod) {
		if t.unknown != "" || t.claims[claim] {
			return true
		}
	}
	return false
}

// Full reports that no Pod may have a turn in addition to those of a plan of the Node.
func (t *VolumeTurns) Full(p Plan) bool {
	if t == nil {
		return false
	}
	taken := t.busy()
	for i := range p.Decisions {
		if d := &p.Decisions[i]; t.Concerns(d.Pod) {
			taken += t.turns(d)
		}
	}
	return t.unknown != "" || taken >= t.policy.MaxParallel
}
