package healthcheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// Evaluate judges one Machine. It is total, and fails safe: what was not read, or does not say since when, is never Unhealthy. It
// allocates nothing for a healthy Machine. Rule: Cluster API's MachineHealthCheck targets.
func Evaluate(f Facts) Verdict {
	m := f.Machine
	if _, skips := m.Annotations[SkipAnnotation]; skips || m.Paused() {
		return Verdict{Skipped: true, Reason: ReasonSkipped}
	}
	if _, asked := m.Annotations[RemediateAnnotation]; asked {
		return Verdict{Class: Unhealthy, Reason: ReasonHasRemediateAnnotation, Since: f.Now,
			Message: "Health check failed: marked for remediation via " + RemediateAnnotation + " annotation"}
	}
	if cluster := f.Cluster; cluster != nil {
		_, controls := m.Labels[contract.ControlPlaneLabel]
		switch { // events of the Cluster follow
		case !cluster.ControlPlaneInitialized && !controls:
			return Verdict{Reason: ReasonControlPlaneNotInitialized, Unjudged: true}
		case cluster.InfrastructureUnready || !cluster.InfrastructureProvisioned && cluster.InfrastructureReadyAt.IsZero():
			return Verdict{Reason: ReasonInfrastructureNotReady, Unjudged: true}
		}
	}
	e := evaluation{facts: f}
	e.machine()
	e.node()
	return e.verdict()
}

// evaluation collects what is wrong with one Machine.
type evaluation struct {
	facts  Facts
	causes []string // of an unhealthy Machine
	reason string
	since  time.Time
	// suspected is why the first thing that is wrong is no reason to remediate.
	suspected   string
	unstarted   bool
	unreported  bool // the Node does not say whether it is Ready
	limit, next time.Duration
}

func (e *evaluation) machine() {
	m := e.facts.Machine
	for _, rule := range e.facts.Checks.Machine {
		for i := range m.Conditions {
			if c := &m.Conditions[i]; c.Type == rule.Type && c.Status == rule.Status {
				e.apply(rule, "Machine", c.Reason, c.LastTransitionTime.Time, ReasonUnhealthyMachine)
			}
		}
	}
	if failed := m.FailureReason != "" || m.FailureMessage != ""; failed && m.Node.Name == "" {
		e.unstarted = true
		e.blame(ReasonUnhealthyMachine, time.Time{}, "Machine failed before it had a Node: %s",
			strings.TrimSpace(m.FailureReason+" "+m.FailureMessage))
	}
}

func (e *evaluation) node() {
	switch e.facts.NodeState {
	case NodeGone:
		e.limit, _ = e.facts.Checks.limits(e.facts.Machine.Annotations)
		e.blame(ReasonNodeDeleted, time.Time{}, "Node %s has been deleted", e.facts.Machine.Node.Name)
	case NodeNone:
		e.unstarted = true
		e.startup()
	case NodePresent:
		isReady := func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }
		e.unreported = !slices.ContainsFunc(e.facts.Node.Status.Conditions, isReady)
		for _, rule := range e.facts.Checks.Node {
			for i := range e.facts.Node.Status.Conditions {
				c := &e.facts.Node.Status.Conditions[i]
				if string(c.Type) == rule.Type && c.Status == corev1.ConditionStatus(rule.Status) {
					e.apply(rule, "Node", c.Reason, c.LastTransitionTime.Time, ReasonUnhealthyNode)
				}
			}
		}
	case NodeUnread:
	}
}

// startup applies the limits for a Machine without a Node.
func (e *evaluation) startup() {
	startup, join := e.facts.Checks.limits(e.facts.Machine.Annotations)
	base, ready := e.base()
	limit := startup
	if !ready.IsZero() && join > 0 && (limit == 0 || base.Add(limit).After(ready.Add(join))) {
		base, limit = ready, join
	}
	if limit == 0 {
		return
	}
	e.limit = max(e.limit, limit)
	if e.since.IsZero() {
		e.since = base
	}
	if left := base.Add(limit).Sub(e.facts.Now); left < 0 {
		e.blame(ReasonNodeStartupTimeout, base, "Node failed to report startup in %s", limit)
	} else {
		e.check(left, limit)
	}
}

// base returns when the time of a Machine without a Node begins, and when its infrastructure was ready, zero before.
func (e *evaluation) base() (base, ready time.Time) {
	m := e.facts.Machine
	base = m.Created
	later := func(t time.Time) {
		if t.After(base) && !t.After(e.facts.Now) { // a clock that is ahead must not extend the limit for ever
			base = t
		}
	}
	if cluster := e.facts.Cluster; cluster != nil {
		later(cluster.ControlPlaneInitializedAt)
		later(cluster.InfrastructureReadyAt)
	}
	for i := range m.Conditions {
		if c := &m.Conditions[i]; c.Type == contract.ConditionInfrastructureReady && c.Status == metav1.ConditionTrue {
			ready = c.LastTransitionTime.Time
			later(ready)
		}
	}
	answered := e.facts.AnsweredAt // it may be yet to come, by this process's own clock
	if answered.After(base) {
		base = answered
	}
	if !ready.IsZero() && answered.After(ready) {
		ready = answered
	}
	return base, ready
}

// apply applies a rule whose condition has the status of the rule.
func (e *evaluation) apply(rule contract.HealthRule, of, reason string, since time.Time, blames string) {
	begins := since
	if begins.Before(e.facts.AnsweredAt) {
		begins = e.facts.AnsweredAt
	}
	left := begins.Add(rule.Timeout).Sub(e.facts.Now)
	e.limit = max(e.limit, rule.Timeout)
	switch {
	case since.IsZero():
		e.suspect(ReasonTimeUnknown, since)
	case left < 0:
		e.blame(blames, since, "Condition %s on %s is reporting status %s with reason %s for more than %s",
			rule.Type, of, rule.Status, reason, rule.Timeout)
	default:
		e.suspect(ReasonSuspect, since)
		e.check(left, rule.Timeout)
	}
}

// check requests the next look a second after a limit is reached. A transition in the future, by a clock that is ahead, does not delay it.
func (e *evaluation) check(left, limit time.Duration) {
	if after := min(left, limit) + time.Second; e.next == 0 || after < e.next {
		e.next = after
	}
}

func (e *evaluation) blame(reason string, since time.Time, cause string, args ...any) {
	e.causes = append(e.causes, fmt.Sprintf(cause, args...))
	if e.reason == "" { // what is wrong with the Machine comes first
		e.reason, e.since = reason, since
	} else if !since.IsZero() && since.Before(e.since) {
		e.since = since
	}
}

func (e *evaluation) suspect(why string, since time.Time) {
	e.suspected = cmp.Or(e.suspected, why)
	if len(e.causes) == 0 && (e.since.IsZero() || since.Before(e.since)) {
		e.since = since
	}
}

func (e *evaluation) verdict() Verdict {
	v := Verdict{Since: e.since, Limit: e.limit, Unstarted: e.unstarted, NextCheck: e.next}
	switch {
	case len(e.causes) > 0:
		v.Class, v.Reason, v.NextCheck = Unhealthy, e.reason, 0
		if v.Since.IsZero() {
			v.Since = e.saidSince()
		}
		v.Message = "Health check failed:\n  * " + strings.Join(e.causes, "\n  * ")
	case e.suspected != "":
		v.Reason, v.Suspect = e.suspected, true
	case !e.facts.Machine.Deleting.IsZero():
		v.Reason = ReasonDeleting
	case e.facts.NodeState == NodeUnread:
		v.Reason = ReasonNodeUnread
	case e.unstarted || e.unreported: // the node lifecycle controller says of a Node that it is unknown after a while
		v.Reason = ReasonStarting
	default:
		v.Class, v.Reason = Healthy, ReasonSucceeded
	}
	return v
}

// saidSince returns since when the Machine has been said to be unhealthy; zero when it was not yet. A Node that is gone and a creation that
// failed do not say since when, and one that is unknown would be at once with each later failure of another Machine.
func (e *evaluation) saidSince() time.Time {
	for i := range e.facts.Machine.Conditions {
		c := &e.facts.Machine.Conditions[i]
		if c.Type == contract.ConditionHealthCheckSucceeded && c.Status == metav1.ConditionFalse {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
