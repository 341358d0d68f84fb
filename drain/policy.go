package drain

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Reasons that a [Policy] gives, and those of the runner about the course of a drain.
const (
	ReasonEscalated        Reason = "Escalated"        // a stage deletes what did not go
	ReasonDeadline         Reason = "Deadline"         // deleted so that its grace period ends at the deadline
	ReasonUnreachable      Reason = "Unreachable"      // nothing was heard of the Node for long
	ReasonPoweredOff       Reason = "PoweredOff"       // the provider says that the instance is off
	ReasonInstanceGone     Reason = "InstanceGone"     // the provider says that there is no instance
	ReasonStuckTerminating Reason = "StuckTerminating" // terminating for longer than is to be waited for
	ReasonAbandoned        Reason = "Abandoned"        // the drain was given up before the pod was asked to go
	ReasonRespawned        Reason = "Respawned"        // its controller creates pods on the cordoned Node again and again
)

// Policy says how long a drain stays polite, and what it does then. The zero value evicts for ever, with every pod's own
// grace period, and forces nothing. A Policy is plain data: safe for concurrent use, never changed.
//
// A policy only speaks about pods that the rules let go: what a rule ignores or denies stays so in every stage.
type Policy struct {
	// GracePeriod replaces the grace period of every pod, in seconds; nil means the pod's own. 0 ends containers without
	// waiting and removes the object at once: it needs AllowImmediateKill.
	GracePeriod *int64
	// AllowImmediateKill allows grace periods of 0. Even then a pod gets one second while nobody knows whether its Node
	// still runs, because a StatefulSet would start a second pod beside one that lives (Karpenter #3032).
	AllowImmediateKill bool
	// Stages escalate; the latest one that has begun counts. Before the first one pods are evicted.
	Stages []Stage
	// Unreachable says what changes when the Node does not answer. Nil: nothing does.
	Unreachable *UnreachablePolicy
	// MultipleBudgets says what happens to pods that more than one budget selects: the eviction API cannot serve them.
	MultipleBudgets MultipleBudgetsPolicy
	// SerialVolumes lets pods with volumes leave the Node one after the other; nil lets them leave like other pods. Package drain/runner
	// needs Config.Volumes for it.
	SerialVolumes *SerialVolumes
	// DeleteInTerminatingNamespaces deletes pods whose namespace is being deleted, after their eviction was refused for that
	// reason and has rested. The namespace controller would delete them too, with no more regard for budgets.
	DeleteInTerminatingNamespaces bool
}

// DefaultPolicy returns what the reconcilers of this module drain by unless they are told otherwise: it evicts for ever, but does not
// wait for pods that cannot end because their kubelet has not answered for minutes. It is a fresh value.
func DefaultPolicy() *Policy { return &Policy{Unreachable: &UnreachablePolicy{}} }

// MultipleBudgetsPolicy is a policy for pods that more than one budget selects (k/k #75957).
type MultipleBudgetsPolicy struct {
	// DeleteAfter is how long after the start of the drain such pods are deleted; 0 means never: they block.
	DeleteAfter time.Duration
}

// Situation is what a [Policy] may know about the drain of one Node. The zero value is a Node that answers, in a drain that
// has just begun and has no deadline.
type Situation struct {
	Now time.Time
	// StartedAt is when the drain began, as its owner has persisted it. Zero means now.
	StartedAt time.Time
	// Deadline is when the Node goes away whatever is left on it; zero means never.
	Deadline time.Time
	// Node is looked at for its Ready condition and its taints; nil answers. It is shared and not changed.
	Node *corev1.Node
	// PoweredOff and InstanceGone are the provider's word about the instance, never a guess from the Node's conditions.
	PoweredOff   bool
	InstanceGone bool
	// EvictsOnly: pods cannot be deleted. Those of a Node whose instance is off are evicted then.
	EvictsOnly bool
}

func (s *Situation) elapsed() time.Duration {
	if s.StartedAt.IsZero() {
		return 0
	}
	return max(0, s.Now.Sub(s.StartedAt))
}

// Validate names everything that is wrong with a policy.
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

// Rule returns the policy as the last [Rule] of a fold: it turns the verdict of the rules before it into the one that the
// situation asks for. The zero policy returns a rule without opinions.
func (p Policy) Rule(s Situation) Rule {
	m := moment{policy: &p, Situation: s, state: p.NodeState(s), stage: p.stage(&s)}
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) { return m.judge(pod, prev), nil }
}

// Abandoned says that a stage has given the drain up.
func (p Policy) Abandoned(s Situation) bool { return p.stage(&s).Mode == ModeAbandon }

// AbandonsAfter is how long after its start a drain is given up, 0 for never. Who records that start can treat it as a limit, which
// then is reached also while the pods of the Node cannot be read.
func (p Policy) AbandonsAfter() time.Duration {
	for _, stage := range p.Stages {
		if stage.Mode == ModeAbandon {
			return max(stage.After, 1)
		}
	}
	return 0
}

// DeletesAfter says whether a pod whose eviction was refused is to be deleted instead. Only [ReasonMultipleBudgets] and
// [ReasonNamespaceTerminating] are refusals that evicting again cannot overcome.
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

// leave decides about a pod that is to go and has time left.
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

// asked returns the grace period to name in the request; nil is the pod's own.
func (m *moment) asked(v Verdict) *int64 {
	for _, g := range []*int64{v.GracePeriodSeconds, m.stage.Grace, m.policy.GracePeriod} {
		if g != nil {
			return m.atLeast(*g)
		}
	}
	return nil
}

// atLeast raises a grace period to the least that is allowed now.
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

// graceOf is the grace period in seconds that a request with this verdict would give the pod.
func (m *moment) graceOf(pod *corev1.Pod, v Verdict) int64 {
	if g := m.asked(v); g != nil {
		return *g
	}
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		return *own
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

// outsideOrders are deletions that help nobody when they are late.
func outsideOrders(d *Decision) bool {
	return d.Action == Delete && (d.Pod.DeletionTimestamp != nil || d.Reason == ReasonDeadline || d.Reason == ReasonPoweredOff)
}
