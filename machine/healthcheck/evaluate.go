package healthcheck

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// Evaluate judges one Machine. It accepts all inputs, and fails safe: a problem that was not read, or that has no start time, is never
// Unhealthy. It allocates nothing for a healthy Machine. Rule: Cluster API's MachineHealthCheck targets.
func Evaluate(f Facts) Verdict {
	m := f.Machine
	if f.Reach.Silent {
		return Verdict{Reason: ReasonUnreachable, Unjudged: true}
	}
	if _, skips := m.Annotations[SkipAnnotation]; skips || m.Paused() {
		return Verdict{Skipped: true, Reason: ReasonSkipped}
	}
	if _, asked := m.Annotations[contract.RemediateAnnotation]; asked {
		return Verdict{Class: Unhealthy, Reason: ReasonHasRemediateAnnotation, Since: f.Now,
			Message: "Health check failed: marked for remediation via " + contract.RemediateAnnotation + " annotation"}
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
	e := evaluation{Facts: f}
	e.machine()
	e.node()
	return e.verdict()
}

// evaluation collects the problems of one Machine.
type evaluation struct {
	Facts
	Verdict

	causes     []string // of an unhealthy Machine
	unreported bool     // the Node does not report whether it is Ready
}

func (e *evaluation) machine() {
	m := e.Machine
	for _, rule := range e.Checks.Machine {
		if c := meta.FindStatusCondition(m.Conditions, rule.Type); c != nil && c.Status == rule.Status {
			e.apply(rule, "Machine", c.Reason, c.LastTransitionTime.Time, ReasonUnhealthyMachine)
		}
	}
	if failed := m.FailureReason != "" || m.FailureMessage != ""; failed && m.Node.Name == "" {
		e.Unstarted = true
		e.blame(ReasonUnhealthyMachine, time.Time{}, "Machine failed before it had a Node: %s",
			strings.TrimSpace(m.FailureReason+" "+m.FailureMessage))
	}
}

func (e *evaluation) node() {
	switch e.NodeState {
	case NodeGone:
		e.Limit = e.Checks.NodeStartup
		e.blame(ReasonNodeDeleted, time.Time{}, "Node %s has been deleted", e.Machine.Node.Name)
	case NodeNone:
		e.Unstarted = true
		e.startup()
	case NodePresent:
		isReady := func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }
		e.unreported = !slices.ContainsFunc(e.Node.Status.Conditions, isReady)
		for _, rule := range e.Checks.Node {
			for i := range e.Node.Status.Conditions {
				c := &e.Node.Status.Conditions[i]
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
	m, ready := e.Machine, time.Time{}
	limit, join := e.Checks.NodeStartup, e.Checks.Join
	if c := meta.FindStatusCondition(m.Conditions, contract.ConditionInfrastructureReady); c != nil && c.Status == metav1.ConditionTrue {
		ready = c.LastTransitionTime.Time
	}
	steps := []time.Time{ready}
	if cluster := e.Cluster; cluster != nil {
		steps = append(steps, cluster.ControlPlaneInitializedAt, cluster.InfrastructureReadyAt)
	}
	isAhead := func(at time.Time) bool { return at.After(e.Now) } // a clock that is ahead must not extend the limit forever
	base := later(append(slices.DeleteFunc(steps, isAhead), m.Created, e.Reach.AnsweredAt)...)
	joins := later(ready, e.Reach.AnsweredAt)
	if !ready.IsZero() && join > 0 && (limit == 0 || base.Add(limit).After(joins.Add(join))) {
		base, limit = joins, join
	}
	if limit > 0 {
		if len(e.causes) > 0 && e.Since.IsZero() { // a failed creation has no start time
			e.Since = base
		}
		e.lasts(base, limit, ReasonNodeStartupTimeout, "Node failed to report startup in %s", limit)
	}
}

func later(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// apply applies a rule whose condition has the status of the rule.
func (e *evaluation) apply(rule contract.HealthRule, of, reason string, since time.Time, blames string) {
	over := e.lasts(since, rule.Timeout, blames, "Condition %s on %s is reporting status %s with reason %s for more than %s",
		rule.Type, of, rule.Status, reason, rule.Timeout)
	e.Suspect = e.Suspect || !over
}

// lasts applies a limit to a problem that began at a time, and reports whether the limit is over. A problem without a start time is never a
// reason to remediate. The next check is a second after the limit; a transition in the future, from a clock that is ahead, does not delay
// it.
func (e *evaluation) lasts(since time.Time, limit time.Duration, reason, cause string, args ...any) (over bool) {
	left := later(since, e.Reach.AnsweredAt).Add(limit).Sub(e.Now)
	e.Limit = max(e.Limit, limit)
	if left < 0 && !since.IsZero() {
		e.blame(reason, since, cause, args...)
		return true
	}
	if len(e.causes) == 0 && (e.Since.IsZero() || since.Before(e.Since)) {
		e.Since = since
	}
	if after := min(left, limit) + time.Second; !since.IsZero() && (e.NextCheck == 0 || after < e.NextCheck) {
		e.NextCheck = after
	}
	return false
}

func (e *evaluation) blame(reason string, since time.Time, cause string, args ...any) {
	e.causes = append(e.causes, fmt.Sprintf(cause, args...))
	if e.Reason == "" { // problems of the Machine come first
		e.Reason, e.Since = reason, since
	} else if !since.IsZero() && since.Before(e.Since) {
		e.Since = since
	}
}

// verdict completes the Verdict. A missing Node and a failed creation have no start time, so the transition time of their condition is
// used. Otherwise they would seem simultaneous with each later failure of another Machine.
func (e *evaluation) verdict() Verdict {
	switch {
	case len(e.causes) > 0:
		e.Class, e.Suspect, e.NextCheck = Unhealthy, false, 0
		last := meta.FindStatusCondition(e.Machine.Conditions, contract.ConditionHealthCheckSucceeded)
		if e.Since.IsZero() && last != nil && last.Status == metav1.ConditionFalse {
			e.Since = last.LastTransitionTime.Time
		}
		e.Message = "Health check failed:\n  * " + strings.Join(e.causes, "\n  * ")
	case e.Suspect:
		e.Reason = ReasonSuspect
	case !e.Machine.Deleting.IsZero():
		e.Reason = ReasonDeleting
	case e.NodeState == NodeUnread:
		e.Reason = ReasonNodeUnread
	case e.Unstarted || e.unreported: // the node lifecycle controller sets an unreported Node to Unknown after a while
		e.Reason = ReasonStarting
	default:
		e.Class, e.Reason = Healthy, ReasonSucceeded
	}
	return e.Verdict
}

// Class is the result of a check for a Machine.
type Class string

// Values of Class.
const (
	// Pending: the Machine is not judged, or not yet. It is the zero value.
	Pending Class = ""
	// Healthy: the Machine has a Node that has reported, and no problem.
	Healthy Class = "Healthy"
	// Unhealthy: the Machine has had a problem for as long as the check allows.
	Unhealthy Class = "Unhealthy"
)

// Reasons of the condition HealthCheckSucceeded of Machines. They are Cluster API's.
const (
	ReasonSucceeded              = "HealthCheckSucceeded"   // nothing is wrong with the Machine
	ReasonUnhealthyNode          = "UnhealthyNode"          // a condition of the Node has been unhealthy for the time that the check allows
	ReasonUnhealthyMachine       = "UnhealthyMachine"       // a condition of the Machine has been unhealthy, or it has failed
	ReasonNodeStartupTimeout     = "NodeStartupTimeout"     // no Node has joined in the time that the check allows
	ReasonNodeDeleted            = "NodeDeleted"            // the Node of the Machine was deleted
	ReasonHasRemediateAnnotation = "HasRemediateAnnotation" // a user requests the remediation with an annotation
)

// Reasons why a Machine is not judged, or not yet.
const (
	ReasonSkipped                    = "Skipped"                    // an annotation excludes the Machine from the check
	ReasonControlPlaneNotInitialized = "ControlPlaneNotInitialized" // the control plane of the Cluster is not initialized
	ReasonInfrastructureNotReady     = "InfrastructureNotReady"     // the infrastructure of the Cluster is not ready
	ReasonUnreachable                = "ClusterUnreachable"         // an API server that the Machine depends on does not answer
	ReasonNodeUnread                 = "NodeUnread"                 // the Node could not be read
	ReasonDeleting                   = "Deleting"                   // the Machine is being deleted
	// ReasonStarting: the Machine has no Node yet, or one that has not reported, and its limit is not reached.
	ReasonStarting = "Starting"
	// ReasonSuspect: there is a problem, but not for long enough, or without a start time.
	ReasonSuspect = "Suspect"
)

// Verdict is the result of Evaluate for a Machine.
type Verdict struct {
	Class Class
	// Skipped: the Machine does not count at all, as with SkipAnnotation.
	Skipped bool
	// Reason and Message are those of the condition HealthCheckSucceeded for a Machine that is Healthy or Unhealthy. Otherwise Reason is why
	// it is neither. They change only when the problem changes.
	Reason, Message string
	// Since is when the problem began, or begins to count. Zero when that is unknown, or there is no problem.
	Since time.Time
	// Limit is how long the problem may last, the longest of several; zero when there is no problem, or it may not last. A Node that is gone
	// has as long to register again as a new one.
	Limit time.Duration
	// Suspect: there is a problem that is not yet, or never will be, a reason to remediate.
	Suspect bool
	// Unjudged: no Machine of the cluster can be judged now. The Machine counts with its last result.
	Unjudged bool
	// Unstarted: the Machine has never had a Node.
	Unstarted bool
	// NextCheck is the time after which the verdict changes without an event; zero when it does not.
	NextCheck time.Duration
}

// isBad reports whether the Machine has a problem, for long enough or not.
func (v *Verdict) isBad() bool { return v.Class == Unhealthy || v.Suspect }
