package drain

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

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
	m := moment{policy: &p, Situation: s, state: p.NodeState(s), stage: p.stage(&s)}
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
