package drain

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// UnreachablePolicy says what a drain does with a Node that does not answer. The zero value is the table of
// drain-noderef 4.5: five minutes after the Node fell silent its pods are evicted with a grace period of one second, longer
// ones are shortened, and pods that still terminate a minute after their time are no longer waited for; budgets are
// honoured until the provider confirms that the instance is off.
type UnreachablePolicy struct {
	// After is how long the Node's Ready condition must have been Unknown; 0 means 5 minutes, negative means at once.
	After time.Duration
	// Grace is the longest grace period, in seconds, that a pod of such a Node gets; nil means 1. Pods that terminate with a
	// longer one are deleted again, because the API server lets a grace period be shortened and never lengthened.
	Grace *int64
	// SkipTerminatingAfter is how long after its time a terminating pod is no longer waited for; 0 means 1 minute, negative means that
	// it is always waited for. Its time is the end of its grace period, or sooner that of Grace, which counts from when its deletion
	// was asked for, the drain began and After had passed: so also where the grace period could not be shortened.
	SkipTerminatingAfter time.Duration
	// BypassBudgetsAfter deletes instead of evicting when the Node has been silent for so long; 0 means never. A silent Node
	// may run its pods on behind a broken network.
	BypassBudgetsAfter time.Duration
	// OutOfServiceTaint puts [OutOfServiceTaint] on the Node once the provider confirms that the instance is off, and leaves
	// its pods to the cluster's controllers, which also detach volumes then (KEP-2268). Pods that tolerate it are deleted.
	OutOfServiceTaint bool
	// FinishWhenPoweredOff waits for no pod once the provider confirms that the instance is off: who deletes the Node next
	// leaves its pods to the garbage collector.
	FinishWhenPoweredOff bool
}

const (
	defaultUnreachableAfter = 5 * time.Minute
	defaultSkipTerminating  = time.Minute
)

// NodeState is what a policy makes of a Node's silence.
type NodeState uint8

const (
	// NodeReachable says that the Node answers, is silent for a short time only, or the policy has no opinion.
	NodeReachable NodeState = iota
	// NodeUnreachable says that the Node has been silent for UnreachablePolicy.After; its pods may be alive.
	NodeUnreachable
	// NodePoweredOff says that the provider confirmed that the instance is off; nothing runs there.
	NodePoweredOff
	// NodeGone says that the provider confirmed that there is no instance.
	NodeGone
)

// String returns the state's name, for example "NodePoweredOff".
func (n NodeState) String() string {
	return nameOf(n, "NodeState", "NodeReachable", "NodeUnreachable", "NodePoweredOff", "NodeGone")
}

// NodeState judges the Node. Without an UnreachablePolicy only NodeGone differs from NodeReachable. Nobody has to wait for
// volumes of a Node that is not NodeReachable.
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

// UnreachableSince says whether and since when the Node's Ready condition is Unknown. False and a missing condition are
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

// OutOfServiceTaint is the taint that tells the cluster that a Node is off for good.
func OutOfServiceTaint() corev1.Taint {
	return corev1.Taint{
		Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
	}
}

// OutOfService says whether the Node is to carry [OutOfServiceTaint].
func (p Policy) OutOfService(s Situation) bool {
	return p.NodeState(s) == NodePoweredOff && p.Unreachable.OutOfServiceTaint
}

func (u *UnreachablePolicy) after() time.Duration {
	if u.After == 0 {
		return defaultUnreachableAfter
	}
	return max(0, u.After)
}

func (u *UnreachablePolicy) skipAfter() time.Duration {
	if u.SkipTerminatingAfter == 0 {
		return defaultSkipTerminating
	}
	return u.SkipTerminatingAfter
}

func (u *UnreachablePolicy) grace() int64 {
	if u.Grace == nil {
		return 1
	}
	return *u.Grace
}

func (u *UnreachablePolicy) bypasses(s *Situation) bool {
	since, silent := UnreachableSince(s.Node)
	return silent && u.BypassBudgetsAfter > 0 && s.Now.Sub(since) >= u.BypassBudgetsAfter
}

// shortened is the grace period of a pod whose Node does not answer.
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

// goneBy is when a terminating pod of a Node that does not answer should be gone. Whoever drains has the time to shorten its grace period
// before that.
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

// terminating decides about a pod that is going already.
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
