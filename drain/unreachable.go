package drain

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// UnreachablePolicy decides what a drain does with a Node that does not answer. The zero value is the table of drain-noderef 4.5: five
// minutes after the last answer, Pods are evicted with a grace period of one second, longer grace periods are shortened, and the drain does
// not wait for Pods that still terminate a minute after their time; budgets are respected until the provider confirms that the instance is
// off.
type UnreachablePolicy struct {
	// After is how long the Ready condition of the Node must have been Unknown; 0 means 5 minutes, negative means immediately.
	After time.Duration
	// Grace is the maximum grace period, in seconds, of the Pods of such a Node; nil means 1. Pods that terminate with a longer grace period
	// are deleted again: the API server allows a shorter grace period, but not a longer one.
	Grace *int64
	// SkipTerminatingAfter is how long after its time the drain waits for a terminating Pod; 0 means 1 minute, negative means without a limit.
	// Its time is the end of its grace period or, if that is sooner, the end of Grace counted from the latest of the deletion request, the
	// start of the drain and the end of After, even if the grace period could not be shortened.
	SkipTerminatingAfter time.Duration
	// BypassBudgetsAfter deletes instead of evicting when the Node has not answered for this time; 0 means never. A Node that does not answer
	// may still run its Pods behind a broken network.
	BypassBudgetsAfter time.Duration
	// OutOfServiceTaint sets [OutOfServiceTaint] on the Node when the provider confirms that the instance is off. The controllers of the
	// cluster then delete its Pods and detach its volumes (KEP-2268). Pods that tolerate the taint are deleted.
	OutOfServiceTaint bool
	// FinishWhenPoweredOff ends the drain when the provider confirms that the instance is off: after the deletion of the Node, the garbage
	// collector deletes its Pods.
	FinishWhenPoweredOff bool
}

// NodeState is how a policy regards a Node.
type NodeState uint8

const (
	// NodeReachable means that the Node answers, has not answered only for a short time, or there is no UnreachablePolicy.
	NodeReachable NodeState = iota
	// NodeUnreachable means that the Node has not answered for UnreachablePolicy.After; its Pods may still run.
	NodeUnreachable
	// NodePoweredOff means that the provider confirmed that the instance is off.
	NodePoweredOff
	// NodeGone means that the provider confirmed that the instance does not exist.
	NodeGone
)

// String returns the state's name, for example "NodePoweredOff".
func (n NodeState) String() string {
	return nameOf(n, "NodeState", "NodeReachable", "NodeUnreachable", "NodePoweredOff", "NodeGone")
}

// NodeState returns how the policy regards the Node. Without an UnreachablePolicy it is NodeReachable or NodeGone. There is no need to wait
// for volumes of a Node that is not NodeReachable.
func (p Policy) NodeState(s Situation) NodeState {
	since, silent := UnreachableSince(s.Node)
	switch {
	case s.InstanceGone:
		return NodeGone
	case p.Unreachable == nil:
		return NodeReachable
	case s.PoweredOff:
		return NodePoweredOff
	case silent && s.Now.Sub(since) >= p.Unreachable.after():
		return NodeUnreachable
	default:
		return NodeReachable
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

// OutOfServiceTaint returns the taint that declares a Node out of service.
func OutOfServiceTaint() corev1.Taint {
	return corev1.Taint{
		Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
	}
}

// OutOfService reports whether the policy sets [OutOfServiceTaint] on the Node.
func (p Policy) OutOfService(s Situation) bool {
	return p.NodeState(s) == NodePoweredOff && p.Unreachable.OutOfServiceTaint
}

func (u *UnreachablePolicy) after() time.Duration {
	return max(0, cmp.Or(u.After, 5*time.Minute))
}

func (u *UnreachablePolicy) skipAfter() time.Duration {
	return cmp.Or(u.SkipTerminatingAfter, time.Minute)
}

func (u *UnreachablePolicy) grace() int64 {
	return ptr.Deref(u.Grace, 1)
}

func (u *UnreachablePolicy) bypasses(s *Situation) bool {
	since, silent := UnreachableSince(s.Node)
	return silent && u.BypassBudgetsAfter > 0 && s.Now.Sub(since) >= u.BypassBudgetsAfter
}

// shortened is the grace period of a Pod whose Node does not answer.
func (m *moment) shortened(pod *corev1.Pod, v Verdict) *int64 {
	return m.atLeast(min(m.graceOf(pod, v), m.policy.Unreachable.grace()))
}

func (m *moment) poweredOff(pod *corev1.Pod, v Verdict) Verdict {
	taint := OutOfServiceTaint()
	if m.policy.Unreachable.OutOfServiceTaint && !tolerates(pod, &taint) {
		return m.let(v, Wait, ReasonPoweredOff, "the Node is out of service; its Pods are left to the Pod garbage collector")
	}
	v.GracePeriodSeconds = m.shortened(pod, v)
	if m.EvictsOnly {
		return v
	}
	return m.let(v, Delete, ReasonPoweredOff, "deleting the Pod because the instance of its Node is off")
}

// goneBy is when a terminating Pod of a Node that does not answer should be gone. It leaves time to shorten the grace period before.
func (m *moment) goneBy(pod *corev1.Pod) time.Time {
	end := pod.DeletionTimestamp.Time
	if m.StartedAt.IsZero() || pod.DeletionGracePeriodSeconds == nil {
		return end
	}
	from := end.Add(-seconds(*pod.DeletionGracePeriodSeconds))
	if m.StartedAt.After(from) {
		from = m.StartedAt
	}
	if since, silent := UnreachableSince(m.Node); silent && m.state == NodeUnreachable && since.Add(m.policy.Unreachable.after()).After(from) {
		from = since.Add(m.policy.Unreachable.after())
	}
	if short := from.Add(seconds(m.policy.Unreachable.grace())); short.Before(end) {
		return short
	}
	return end
}

// terminating decides about a Pod that is terminating.
func (m *moment) terminating(pod *corev1.Pod, v Verdict) Verdict {
	silent := m.state == NodeUnreachable || m.state == NodePoweredOff
	if silent {
		skip := m.policy.Unreachable.skipAfter()
		if skip >= 0 && m.Now.Sub(m.goneBy(pod)) > skip {
			return m.let(v, Ignore, ReasonStuckTerminating, "the Node does not answer and the Pod should be gone by now")
		}
	}
	current := pod.DeletionGracePeriodSeconds
	if current == nil || *current <= 1 || m.stage.Mode == ModeAbandon {
		return v
	}
	shortest := *current
	if silent {
		shortest = min(shortest, *m.atLeast(m.policy.Unreachable.grace()))
	}
	if m.stage.Mode == ModeDelete && m.stage.Grace != nil {
		shortest = min(shortest, *m.atLeast(*m.stage.Grace))
	}
	if m.stage.Mode == ModeClamp && !m.Deadline.IsZero() && pod.DeletionTimestamp.After(m.Deadline) {
		shortest = min(shortest, *m.remaining())
	}
	if shortest == *current {
		return v
	}
	v.GracePeriodSeconds = &shortest
	return m.let(v, Delete, ReasonTerminating, fmt.Sprintf("shortening the grace period to %d s", shortest))
}
