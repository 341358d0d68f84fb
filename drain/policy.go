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
	ReasonEscalated        Reason = "Escalated"        // a stage deletes Pods that were not evicted
	ReasonDeadline         Reason = "Deadline"         // deleted so that its grace period ends at the deadline
	ReasonUnreachable      Reason = "Unreachable"      // the Node does not answer
	ReasonPoweredOff       Reason = "PoweredOff"       // the provider confirms that the instance is off
	ReasonInstanceGone     Reason = "InstanceGone"     // the provider confirms that the instance does not exist
	ReasonStuckTerminating Reason = "StuckTerminating" // terminating for longer than the drain waits
	ReasonAbandoned        Reason = "Abandoned"        // the drain was given up before the Pod was requested
	ReasonRespawned        Reason = "Respawned"        // its controller creates Pods on the cordoned Node again
)

// Policy decides how long a drain only evicts, and how it escalates. The zero value evicts without a time limit, with every Pod's own grace
// period. A Policy is plain data, safe for concurrent use, and must not be changed.
//
// A policy applies to Pods that the rules let go: Pods that a rule ignores or denies stay so in every stage.
type Policy struct {
	// GracePeriod replaces the grace period of every Pod, in seconds; nil means the Pod's own. 0 kills containers and removes the object
	// immediately; it requires AllowImmediateKill.
	GracePeriod *int64
	// AllowImmediateKill allows grace periods of 0. A Pod still gets one second while it is unknown whether its Node runs, because a
	// StatefulSet could start a second Pod beside a running one (Karpenter #3032).
	AllowImmediateKill bool
	// Stages escalate; the latest stage that has begun applies. Before the first stage, Pods are evicted.
	Stages []Stage
	// Unreachable decides what changes when the Node does not answer; nil changes nothing.
	Unreachable *UnreachablePolicy
	// MultipleBudgets decides about Pods that more than one budget selects: the eviction API does not support them.
	MultipleBudgets MultipleBudgetsPolicy
	// DeleteInTerminatingNamespaces deletes Pods whose Namespace is being deleted, after their eviction was refused for that reason and they
	// have rested. The Namespace controller deletes them too, and also ignores budgets.
	DeleteInTerminatingNamespaces bool
}

// DefaultPolicy returns a new copy of the default policy of the reconcilers of this module: it evicts without a time limit, and does not
// wait for Pods that cannot end because their kubelet has not answered for minutes.
func DefaultPolicy() *Policy { return &Policy{Unreachable: &UnreachablePolicy{}} }

// MultipleBudgetsPolicy is a policy for Pods that more than one budget selects (k/k #75957).
type MultipleBudgetsPolicy struct {
	// DeleteAfter is how long after the start of the drain such Pods are deleted; 0 means never: they block.
	DeleteAfter time.Duration
}

// Situation is what a [Policy] knows about the drain of one Node. The zero value is a Node that answers, in a drain that begins now and has
// no deadline.
type Situation struct {
	Now time.Time
	// StartedAt is when the drain began, as persisted by its owner. Zero means now.
	StartedAt time.Time
	// Deadline is when the Node is removed even if Pods are left; zero means never.
	Deadline time.Time
	// Node provides the Ready condition; nil counts as a Node that answers. It is shared and not changed.
	Node *corev1.Node
	// PoweredOff and InstanceGone are confirmed by the provider, and not derived from conditions of the Node.
	PoweredOff   bool
	InstanceGone bool
	// EvictsOnly: Pods cannot be deleted. Pods of a Node whose instance is off are evicted instead.
	EvictsOnly bool
}

func (s *Situation) elapsed() time.Duration {
	if s.StartedAt.IsZero() {
		return 0
	}
	return max(0, s.Now.Sub(s.StartedAt))
}

// Validate returns all problems of a policy.
func (p Policy) Validate() error {
	var errs []error
	grace := func(field string, g *int64) {
		switch {
		case g == nil:
		case *g < 0:
			errs = append(errs, fmt.Errorf("%s must not be negative, is %d", field, *g))
		case *g == 0 && !p.AllowImmediateKill:
			errs = append(errs, fmt.Errorf("%s is 0, which kills at once; use 1, or set AllowImmediateKill", field))
		}
	}
	grace("GracePeriod", p.GracePeriod)
	for i, stage := range p.Stages {
		field := fmt.Sprintf("Stages[%d]", i)
		grace(field+".Grace", stage.Grace)
		errs = append(errs, stage.problems(field)...)
		if i > 0 && stage.After <= p.Stages[i-1].After {
			errs = append(errs, fmt.Errorf("%s.After must be later than that of the stage before it", field))
		}
		if stage.Mode == ModeAbandon && i < len(p.Stages)-1 {
			errs = append(errs, fmt.Errorf("%s: nothing can follow %s", field, ModeAbandon))
		}
	}
	if p.MultipleBudgets.DeleteAfter < 0 {
		errs = append(errs, errors.New("MultipleBudgets.DeleteAfter must not be negative"))
	}
	if p.Unreachable != nil {
		grace("Unreachable.Grace", p.Unreachable.Grace)
		if p.Unreachable.BypassBudgetsAfter < 0 {
			errs = append(errs, errors.New("Unreachable.BypassBudgetsAfter must not be negative"))
		}
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

// Abandoned reports that a stage gave the drain up.
func (p Policy) Abandoned(s Situation) bool { return p.stage(&s).Mode == ModeAbandon }

// AbandonsAfter is how long after its start a drain is given up; 0 means never. A caller that records the start can use it as a limit that
// applies even while the Pods of the Node cannot be read.
func (p Policy) AbandonsAfter() time.Duration {
	for _, stage := range p.Stages {
		if stage.Mode == ModeAbandon {
			return max(stage.After, 1)
		}
	}
	return 0
}

// DeletesAfter reports whether a Pod whose eviction was refused is deleted instead. Only [ReasonMultipleBudgets] and
// [ReasonNamespaceTerminating] are refusals that further evictions cannot overcome.
func (p Policy) DeletesAfter(refusal Reason, s Situation) bool {
	if p.Abandoned(s) {
		return false
	}
	switch refusal {
	case ReasonMultipleBudgets:
		return p.MultipleBudgets.DeleteAfter > 0 && s.elapsed() >= p.MultipleBudgets.DeleteAfter
	case ReasonNamespaceTerminating:
		return p.DeleteInTerminatingNamespaces
	default:
		return false
	}
}

// moment is a policy in a situation.
type moment struct {
	Situation
	policy *Policy
	state  NodeState
	stage  Stage
}

func (p Policy) at(s Situation) moment {
	return moment{policy: &p, Situation: s, state: p.NodeState(s), stage: p.stage(&s)}
}

func (m *moment) judge(pod *corev1.Pod, v Verdict) Verdict {
	if v.Action != Evict && v.Action != Delete && v.Action != Wait {
		return v
	}
	switch {
	case m.state == NodeGone:
		return m.let(v, Ignore, ReasonInstanceGone, "the instance of the Node is gone")
	case m.state == NodePoweredOff && m.policy.Unreachable.FinishWhenPoweredOff:
		return m.let(v, Ignore, ReasonPoweredOff, "the instance of the Node is off")
	case pod.DeletionTimestamp != nil:
		return m.terminating(pod, v)
	case m.stage.Mode == ModeAbandon:
		return m.let(v, Wait, ReasonAbandoned, fmt.Sprintf("the drain was given up after %s", m.stage.After))
	case m.state == NodePoweredOff && v.Action != Wait:
		return m.poweredOff(pod, v)
	case m.expiring(pod, v):
		v.GracePeriodSeconds = m.remaining()
		return m.let(v, Delete, ReasonDeadline, "deleting the Pod so that its grace period ends at the deadline")
	case v.Action == Wait:
		return v
	}
	return m.leave(pod, v)
}

// leave decides about a Pod that leaves and has time left.
func (m *moment) leave(pod *corev1.Pod, v Verdict) Verdict {
	v.GracePeriodSeconds = m.asked(v)
	if m.state == NodeUnreachable {
		v.GracePeriodSeconds = m.shortened(pod, v)
		if m.policy.Unreachable.bypasses(&m.Situation) {
			return m.let(v, Delete, ReasonUnreachable, "deleting the Pod because its Node does not answer")
		}
	}
	if m.stage.Mode == ModeDelete && v.Action == Evict {
		return m.let(v, Delete, ReasonEscalated, fmt.Sprintf("deleting the Pod, which was not gone after %s", m.stage.After))
	}
	return v
}

func (m *moment) let(v Verdict, a Action, r Reason, message string) Verdict {
	decided := v.decide(a, r, message)
	decided.GracePeriodSeconds = v.GracePeriodSeconds
	return decided
}

// asked returns the grace period of the request; nil is the Pod's own.
func (m *moment) asked(v Verdict) *int64 {
	if g := cmp.Or(v.GracePeriodSeconds, m.stage.Grace, m.policy.GracePeriod); g != nil {
		return m.atLeast(*g)
	}
	return nil
}

// atLeast raises a grace period to the minimum that is allowed now.
func (m *moment) atLeast(g int64) *int64 {
	least := int64(1)
	if m.policy.AllowImmediateKill && m.powerKnown() {
		least = 0
	}
	g = max(g, least)
	return &g
}

func (m *moment) powerKnown() bool {
	_, silent := UnreachableSince(m.Node)
	return m.PoweredOff || !silent
}

// graceOf is the grace period in seconds that a request with this verdict gives the Pod.
func (m *moment) graceOf(pod *corev1.Pod, v Verdict) int64 {
	return ptr.Deref(m.asked(v), graceOfPod(pod))
}

func graceOfPod(pod *corev1.Pod) int64 {
	return ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
}

// outsideOrders reports that a deletion does not wait for Pods of a lower order.
func outsideOrders(d *Decision) bool {
	return d.Action == Delete && (d.Pod.DeletionTimestamp != nil || d.Reason == ReasonDeadline || d.Reason == ReasonPoweredOff)
}

// Mode is how a [Stage] removes Pods.
type Mode uint8

// The zero value is ModeEvict.
const (
	// ModeEvict evicts Pods, which respects budgets.
	ModeEvict Mode = iota
	// ModeDelete deletes Pods instead of evicting them, which ignores budgets. Orders still apply, and so do the waits of rules. Pods that
	// terminate with a longer grace period than Stage.Grace are deleted again with Stage.Grace.
	ModeDelete
	// ModeClamp evicts a Pod until its grace period would end after Situation.Deadline, and then deletes it with the remaining time, at least
	// one second, regardless of its order and of a rule that lets it wait. Pods that would terminate later than that are deleted again. The
	// time differs for each Pod: the deadline minus its grace period, as in Karpenter. Without a deadline it is ModeEvict.
	ModeClamp
	// ModeAbandon sends no more requests and gives the drain up.
	ModeAbandon
)

// String returns the mode's name, for example "ModeEvict".
func (m Mode) String() string {
	return nameOf(m, "Mode", "ModeEvict", "ModeDelete", "ModeClamp", "ModeAbandon")
}

// Stage is one step of the escalation.
type Stage struct {
	// After is when the stage begins, counted from the start of the drain.
	After time.Duration
	Mode  Mode
	// Grace replaces Policy.GracePeriod in this stage, in seconds, for ModeEvict and ModeDelete; nil does not replace it.
	Grace *int64
}

func (s *Stage) problems(field string) (errs []error) {
	if s.After < 0 {
		errs = append(errs, fmt.Errorf("%s.After must not be negative", field))
	}
	if s.Mode > ModeAbandon {
		errs = append(errs, fmt.Errorf("%s: unknown mode %s", field, s.Mode))
	}
	if s.Grace != nil && (s.Mode == ModeClamp || s.Mode == ModeAbandon) {
		errs = append(errs, fmt.Errorf("%s.Grace has no meaning for %s", field, s.Mode))
	}
	return errs
}

// stage returns the latest stage that has begun.
func (p Policy) stage(s *Situation) Stage {
	var current Stage
	elapsed := s.elapsed()
	for _, stage := range p.Stages {
		if stage.After <= elapsed {
			current = stage
		}
	}
	return current
}

// expiring reports that the Pod has to be deleted now for its grace period to end by the deadline.
func (m *moment) expiring(pod *corev1.Pod, v Verdict) bool {
	if m.stage.Mode != ModeClamp || m.Deadline.IsZero() {
		return false
	}
	return !m.Now.Before(m.Deadline.Add(-seconds(m.graceOf(pod, v))))
}

// remaining returns the whole seconds until the deadline.
func (m *moment) remaining() *int64 {
	left := max(1, int64(m.Deadline.Sub(m.Now)/time.Second))
	return &left
}

// Next returns when the decision of the policy about one of the Pods of the Node may change even if nothing else happens; zero means never.
// The Pods are not changed.
func (p Policy) Next(pods []*corev1.Pod, s Situation) time.Time {
	m := p.at(s)
	var next time.Time
	at := func(t time.Time) {
		if t.After(s.Now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	begin := s.StartedAt
	if begin.IsZero() {
		begin = s.Now
	}
	for _, stage := range p.Stages {
		at(begin.Add(stage.After))
	}
	if p.MultipleBudgets.DeleteAfter > 0 {
		at(begin.Add(p.MultipleBudgets.DeleteAfter))
	}
	if since, silent := UnreachableSince(s.Node); silent && p.Unreachable != nil {
		at(since.Add(p.Unreachable.after()))
		at(since.Add(p.Unreachable.BypassBudgetsAfter))
	}
	for _, pod := range pods {
		if pod != nil {
			at(m.nextOf(pod))
		}
	}
	return next
}

// nextOf returns when the decision of the policy about one Pod may change; zero is never.
func (m *moment) nextOf(pod *corev1.Pod) time.Time {
	switch {
	case pod.DeletionTimestamp != nil:
		if m.state == NodeUnreachable || m.state == NodePoweredOff {
			// One second later, because deletion times are cut to seconds.
			return m.goneBy(pod).Add(m.policy.Unreachable.skipAfter() + time.Second)
		}
	case m.stage.Mode == ModeClamp && !m.Deadline.IsZero():
		return m.Deadline.Add(-seconds(m.graceOf(pod, Verdict{})))
	}
	return time.Time{}
}

func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second) // a longer grace period would overflow
	return time.Duration(min(n, most)) * time.Second
}
