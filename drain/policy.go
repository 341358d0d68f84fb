package drain

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Reasons of a [Policy], and of the runner about the progress of a drain.
const (
	ReasonEscalated        Reason = "Escalated"        // deleted, because it was not evicted within the time of the policy
	ReasonPoweredOff       Reason = "PoweredOff"       // the provider confirms that the instance is off
	ReasonStuckTerminating Reason = "StuckTerminating" // terminating for longer than the drain waits
	ReasonRespawned        Reason = "Respawned"        // its controller creates Pods on the cordoned Node again
	ReasonUncordoned       Reason = "Uncordoned"       // others make the Node schedulable again; the blocker has no Pods
)

// Policy decides when a drain deletes Pods instead of evicting them, and how it treats an unreachable Node. The zero value evicts without a
// time limit, with every Pod's own grace period, and waits for every Pod. A Policy is plain data, safe for concurrent use, and must not be
// changed.
//
// A policy does not affect Pods that the rules ignore or deny.
type Policy struct {
	// GracePeriod replaces the grace period of every Pod, in seconds, at least 1; nil means the Pod's own. With 0, the API server would
	// remove the object while the containers still run, and a StatefulSet could start a second Pod beside them (Karpenter #3032).
	GracePeriod *int64
	// DeleteAfter is the time after the start of a drain from which it deletes Pods, ignoring budgets, instead of evicting them; 0 means
	// never. Orders still apply.
	DeleteAfter time.Duration
	// SkipUnreachableAfter is how long the Ready condition of a Node must have been Unknown before the drain assumes that the kubelet ends no
	// Pod; 0 means never. Then Pods are evicted with a grace period of one second, and the drain does not wait for Pods that are still
	// terminating a minute later. Budgets are respected until the provider confirms that the instance is off: then Pods are deleted, and all
	// of this applies at once.
	SkipUnreachableAfter time.Duration
}

const (
	// unreachableGrace is the grace period, in seconds, of Pods on an unreachable Node.
	unreachableGrace = 1
	// skipTerminatingAfter is how long the drain waits for an overdue terminating Pod of an unreachable Node.
	skipTerminatingAfter = time.Minute
)

// DefaultPolicy returns a new copy of the default policy of the reconcilers of this module: it evicts without a time limit, and does not
// wait for Pods that cannot end because their kubelet has not answered for five minutes.
func DefaultPolicy() *Policy { return &Policy{SkipUnreachableAfter: 5 * time.Minute} }

// Situation is the input of a [Policy] about the drain of one Node. The zero value is a Node that answers, in a drain that starts now.
type Situation struct {
	Now time.Time
	// StartedAt is when the drain started, as persisted by its owner. Zero means now.
	StartedAt time.Time
	// Node provides the Ready condition; nil counts as a Node that answers. It is shared and not changed.
	Node *corev1.Node
	// PoweredOff must be confirmed by the provider, and not derived from conditions of the Node.
	PoweredOff bool
}

// Validate returns all problems of a policy.
func (p Policy) Validate() error {
	var grace, times error
	if p.GracePeriod != nil && *p.GracePeriod < 1 {
		grace = fmt.Errorf("drain policy: GracePeriod must be at least 1, is %d", *p.GracePeriod)
	}
	if p.DeleteAfter < 0 || p.SkipUnreachableAfter < 0 {
		times = errors.New("drain policy: DeleteAfter and SkipUnreachableAfter must not be negative")
	}
	return errors.Join(grace, times)
}

// Rule returns the policy as the last [Rule]: it changes the verdict of earlier rules according to the situation. The rule of the zero
// policy changes no verdict.
func (p Policy) Rule(s Situation) Rule {
	dead := p.isUnreachable(s)
	deletes := p.DeleteAfter > 0 && !s.StartedAt.IsZero() && s.Now.Sub(s.StartedAt) >= p.DeleteAfter
	return func(pod *corev1.Pod, v Verdict) (Verdict, error) {
		leaves, waits := v.Action.leaves(), v.Action == Wait
		switch {
		case dead && pod.DeletionTimestamp != nil && (leaves || waits) && s.Now.Sub(p.goneBy(pod, s)) > skipTerminatingAfter:
			return v.decide(Ignore, ReasonStuckTerminating, "the Node does not answer and the Pod should be gone by now"), nil
		case pod.DeletionTimestamp != nil || !leaves:
			return v, nil
		}
		grace := p.graceFor(v, dead)
		switch {
		case dead && s.PoweredOff:
			v = v.decide(Delete, ReasonPoweredOff, "deleting the Pod because the instance of its Node is off")
		case v.Action == Evict && deletes:
			v = v.decide(Delete, ReasonEscalated, fmt.Sprintf("deleting the Pod, which was not gone after %s", p.DeleteAfter))
		}
		v.GracePeriodSeconds = grace
		return v, nil
	}
}

// isUnreachable reports whether no kubelet is expected to end Pods.
func (p Policy) isUnreachable(s Situation) bool {
	since, silent := UnreachableSince(s.Node)
	return p.SkipUnreachableAfter > 0 && (s.PoweredOff || silent && s.Now.Sub(since) >= p.SkipUnreachableAfter)
}

// UnreachableSince reports whether, and since when, the Ready condition of the Node is Unknown. A Node whose condition is False or missing
// answers.
func UnreachableSince(node *corev1.Node) (since time.Time, silent bool) {
	if node == nil {
		return time.Time{}, false
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// graceFor returns the grace period of the request; nil means the Pod's own.
func (p Policy) graceFor(v Verdict, dead bool) *int64 {
	asked := cmp.Or(v.GracePeriodSeconds, p.GracePeriod)
	switch {
	case dead:
		return new(int64(unreachableGrace))
	case asked == nil:
		return nil
	}
	return new(max(1, *asked))
}

// goneBy returns when a terminating Pod of an unreachable Node should be gone: at the end of its grace period or, if that is sooner, at the
// end of unreachableGrace counted from the latest of the deletion request, the start of the drain and the end of SkipUnreachableAfter.
func (p Policy) goneBy(pod *corev1.Pod, s Situation) time.Time {
	end := pod.DeletionTimestamp.Time
	if s.StartedAt.IsZero() || pod.DeletionGracePeriodSeconds == nil {
		return end
	}
	from := end.Add(-seconds(*pod.DeletionGracePeriodSeconds))
	if s.StartedAt.After(from) {
		from = s.StartedAt
	}
	if since, silent := UnreachableSince(s.Node); silent && !s.PoweredOff && since.Add(p.SkipUnreachableAfter).After(from) {
		from = since.Add(p.SkipUnreachableAfter)
	}
	if short := from.Add(unreachableGrace * time.Second); short.Before(end) {
		return short
	}
	return end
}

func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second) // a longer grace period would overflow
	return time.Duration(min(n, most)) * time.Second
}
