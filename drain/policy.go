package drain

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Reasons of a [Policy], and of the runner about the progress of a drain.
const (
	ReasonEscalated        Reason = "Escalated"        // deleted, because it was not evicted for as long as the policy allows
	ReasonPoweredOff       Reason = "PoweredOff"       // the provider confirms that the instance is off
	ReasonStuckTerminating Reason = "StuckTerminating" // terminating for longer than the drain waits
	ReasonRespawned        Reason = "Respawned"        // its controller creates Pods on the cordoned Node again
)

// Policy decides how long a drain only evicts, and what it does about a Node that does not answer. The zero value evicts without a time
// limit, with every Pod's own grace period, and waits for every Pod. A Policy is plain data, safe for concurrent use, and must not be
// changed.
//
// A policy applies to Pods that the rules let go: Pods that a rule ignores or denies stay so.
type Policy struct {
	// GracePeriod replaces the grace period of every Pod, in seconds, at least 1; nil means the Pod's own. With 0, the API server would
	// remove the object while the containers still run, and a StatefulSet could start a second Pod beside them (Karpenter #3032).
	GracePeriod *int64
	// DeleteAfter is how long after its start a drain deletes Pods instead of evicting them, which ignores budgets; 0 means never. Orders
	// still apply.
	DeleteAfter time.Duration
	// UnreachableAfter is how long the Ready condition of a Node must have been Unknown until the drain reckons with a kubelet that ends no
	// Pod; 0 means never. Then Pods are evicted with a grace period of one second, longer ones of terminating Pods are reduced to it, and the
	// drain does not wait for Pods that still terminate a minute after their time. Budgets are respected until the provider confirms that
	// the instance is off: then Pods are deleted, and all of this applies at once.
	UnreachableAfter time.Duration
}

const (
	// unreachableGrace is the grace period, in seconds, of Pods whose Node does not answer. The API server allows a shorter grace period for
	// a terminating Pod, but not a longer one.
	unreachableGrace = 1
	// skipTerminatingAfter is how long after its time the drain waits for a terminating Pod of a Node that does not answer.
	skipTerminatingAfter = time.Minute
)

// DefaultPolicy returns a new copy of the default policy of the reconcilers of this module: it evicts without a time limit, and does not
// wait for Pods that cannot end because their kubelet has not answered for five minutes.
func DefaultPolicy() *Policy { return &Policy{UnreachableAfter: 5 * time.Minute} }

// Situation is what a [Policy] knows about the drain of one Node. The zero value is a Node that answers, in a drain that begins now.
type Situation struct {
	Now time.Time
	// StartedAt is when the drain began, as persisted by its owner. Zero means now.
	StartedAt time.Time
	// Node provides the Ready condition; nil counts as a Node that answers. It is shared and not changed.
	Node *corev1.Node
	// PoweredOff is confirmed by the provider, and not derived from conditions of the Node.
	PoweredOff bool
	// EvictsOnly: Pods cannot be deleted. Pods of a Node whose instance is off are evicted instead.
	EvictsOnly bool
}

// Validate returns all problems of a policy.
func (p Policy) Validate() error {
	var errs []error
	if p.GracePeriod != nil && *p.GracePeriod < 1 {
		errs = append(errs, fmt.Errorf("GracePeriod must be at least 1, is %d", *p.GracePeriod))
	}
	if p.DeleteAfter < 0 {
		errs = append(errs, errors.New("DeleteAfter must not be negative"))
	}
	if p.UnreachableAfter < 0 {
		errs = append(errs, errors.New("UnreachableAfter must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("drain policy: %w", err)
	}
	return nil
}

// Rule returns the policy as the last [Rule]: it changes the verdict of earlier rules according to the situation. The rule of the zero
// policy changes no verdict.
func (p Policy) Rule(s Situation) Rule {
	m := p.at(s)
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) { return m.judge(pod, prev), nil }
}

// nodeState is how a policy regards a Node.
type nodeState uint8

const (
	nodeReachable nodeState = iota
	// nodeUnreachable: its Pods may still run.
	nodeUnreachable
	nodePoweredOff
)

// moment is a policy in a situation.
type moment struct {
	Situation
	policy Policy
	state  nodeState
}

func (p Policy) at(s Situation) moment {
	return moment{policy: p, Situation: s, state: p.stateOf(s)}
}

func (p Policy) stateOf(s Situation) nodeState {
	since, silent := UnreachableSince(s.Node)
	switch {
	case p.UnreachableAfter <= 0:
		return nodeReachable
	case s.PoweredOff:
		return nodePoweredOff
	case silent && s.Now.Sub(since) >= p.UnreachableAfter:
		return nodeUnreachable
	default:
		return nodeReachable
	}
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

func (m *moment) judge(pod *corev1.Pod, v Verdict) Verdict {
	leaves := v.Action == Evict || v.Action == Delete
	switch {
	case !leaves && v.Action != Wait:
		return v
	case pod.DeletionTimestamp != nil:
		return m.terminating(pod, v)
	case !leaves:
		return v
	}
	v.GracePeriodSeconds = m.graceFor(pod, v)
	switch {
	case m.state == nodePoweredOff && !m.EvictsOnly:
		return m.let(v, Delete, ReasonPoweredOff, "deleting the Pod because the instance of its Node is off")
	case v.Action == Evict && m.deletes():
		return m.let(v, Delete, ReasonEscalated, fmt.Sprintf("deleting the Pod, which was not gone after %s", m.policy.DeleteAfter))
	}
	return v
}

// deletes reports that Pods are deleted instead of evicted.
func (m *moment) deletes() bool {
	return m.policy.DeleteAfter > 0 && !m.StartedAt.IsZero() && m.Now.Sub(m.StartedAt) >= m.policy.DeleteAfter
}

func (m *moment) let(v Verdict, a Action, r Reason, message string) Verdict {
	decided := v.decide(a, r, message)
	decided.GracePeriodSeconds = v.GracePeriodSeconds
	return decided
}

// graceFor returns the grace period of the request; nil is the Pod's own.
func (m *moment) graceFor(pod *corev1.Pod, v Verdict) *int64 {
	asked := cmp.Or(v.GracePeriodSeconds, m.policy.GracePeriod)
	switch {
	case m.state != nodeReachable:
		asked = new(min(ptr.Deref(asked, graceOf(pod)), unreachableGrace))
	case asked == nil:
		return nil
	}
	return new(max(1, *asked))
}

func graceOf(pod *corev1.Pod) int64 {
	return ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
}

// terminating decides about a Pod that is terminating.
func (m *moment) terminating(pod *corev1.Pod, v Verdict) Verdict {
	if m.state == nodeReachable {
		return v
	}
	if m.Now.Sub(m.goneBy(pod)) > skipTerminatingAfter {
		return m.let(v, Ignore, ReasonStuckTerminating, "the Node does not answer and the Pod should be gone by now")
	}
	if current := pod.DeletionGracePeriodSeconds; current == nil || *current <= unreachableGrace {
		return v
	}
	v.GracePeriodSeconds = new(int64(unreachableGrace))
	return m.let(v, Delete, ReasonTerminating, fmt.Sprintf("shortening the grace period to %d s", unreachableGrace))
}

// goneBy is when a terminating Pod of a Node that does not answer should be gone: at the end of its grace period or, if that is sooner, at
// the end of unreachableGrace counted from the latest of the deletion request, the start of the drain and the end of UnreachableAfter, even
// if the grace period could not be shortened.
func (m *moment) goneBy(pod *corev1.Pod) time.Time {
	end := pod.DeletionTimestamp.Time
	if m.StartedAt.IsZero() || pod.DeletionGracePeriodSeconds == nil {
		return end
	}
	from := end.Add(-seconds(*pod.DeletionGracePeriodSeconds))
	if m.StartedAt.After(from) {
		from = m.StartedAt
	}
	if since, silent := UnreachableSince(m.Node); silent && m.state == nodeUnreachable && since.Add(m.policy.UnreachableAfter).After(from) {
		from = since.Add(m.policy.UnreachableAfter)
	}
	if short := from.Add(unreachableGrace * time.Second); short.Before(end) {
		return short
	}
	return end
}

// outsideOrders reports that a deletion does not wait for Pods of a lower order.
func outsideOrders(d *Decision) bool {
	return d.Action == Delete && (d.Pod.DeletionTimestamp != nil || d.Reason == ReasonPoweredOff)
}

func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second) // a longer grace period would overflow
	return time.Duration(min(n, most)) * time.Second
}
