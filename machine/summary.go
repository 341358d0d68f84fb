package machine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// readyFacts are the inputs of decideReady.
type readyFacts struct {
	// Conditions are those of the Machine; the first of a type counts.
	Conditions []metav1.Condition
	Gates      []contract.ReadinessGate
	// Deleting: the Machine is being deleted, and Ready reports only the stage.
	Deleting bool
	// NeverSet are conditions that no step sets: each counts only if it is present.
	NeverSet []string
	// Failures are lines about failed steps; Before is the status of Ready as it was read.
	Failures []string
	Before   metav1.ConditionStatus
}

// term is one condition of a summary.
type term struct {
	kind string
	// negative: True is bad. optional: it does not count while it is missing.
	negative, optional bool
}

// terms returns the conditions that Ready summarizes, in the order of its message.
func (f readyFacts) terms() []term {
	terms := []term{
		{kind: contract.ConditionDeleting, negative: true}, {kind: contract.ConditionUpdating, negative: true},
		{kind: contract.ConditionBootstrapConfigReady}, {kind: contract.ConditionInfrastructureReady}, {kind: ConditionNodeHealthy},
		{kind: contract.ConditionHealthCheckSucceeded, optional: true},
	}
	for i := range terms {
		terms[i].optional = terms[i].optional || slices.Contains(f.NeverSet, terms[i].kind)
	}
	for _, gate := range f.Gates {
		at := slices.IndexFunc(terms, func(t term) bool { return t.kind == gate.ConditionType })
		if at < 0 {
			terms = append(terms, term{kind: gate.ConditionType, negative: gate.Negative})
			continue
		}
		terms[at].negative = terms[at].negative || gate.Negative
		terms[at].optional = terms[at].optional && gate.ConditionType == contract.ConditionHealthCheckSucceeded
	}
	return terms
}

// decideReady computes Ready: problems first, then unknown conditions, else true. Its message has a line for each condition that keeps the
// Machine from being ready, in the order of the terms. Rule: Cluster API's setReadyCondition and its default merge strategy. A failed step
// keeps a Machine from becoming ready, but does not make a ready Machine not ready: its effect may not concern the Node.
func decideReady(f readyFacts) metav1.Condition {
	c := f.merged()
	if len(f.Failures) == 0 {
		return c
	}
	lines := slices.Clone(f.Failures)
	if c.Message != "" {
		lines = append(lines, c.Message)
	}
	c.Message = strings.Join(lines, "\n")
	if c.Status == metav1.ConditionTrue && f.Before != metav1.ConditionTrue {
		c.Status = metav1.ConditionUnknown
	}
	if c.Status != metav1.ConditionTrue {
		c.Reason = contract.ReasonInternalError
	}
	return c
}

func (f readyFacts) merged() metav1.Condition {
	if slices.ContainsFunc(f.Gates, func(g contract.ReadinessGate) bool { return g.ConditionType == contract.ConditionReady }) {
		return engine.Condition(contract.ConditionReady, metav1.ConditionUnknown, contract.ReasonInternalError,
			"The readiness gate Ready is the condition itself: remove that gate")
	}
	status, reason := metav1.ConditionTrue, contract.ReasonReady
	var problems []string
	for _, t := range f.terms() {
		c, counts := f.conditionOf(t)
		good, bad := metav1.ConditionTrue, metav1.ConditionFalse
		if t.negative {
			good, bad = bad, good
		}
		switch {
		case !counts, c.Status == good:
			continue
		case c.Status == bad:
			status, reason = metav1.ConditionFalse, contract.ReasonNotReady
		case status == metav1.ConditionTrue:
			status, reason = metav1.ConditionUnknown, contract.ReasonReadyUnknown
		}
		problems = append(problems, "* "+c.Type+":"+engine.Indented(cmp.Or(c.Message, c.Reason)))
	}
	return engine.Condition(contract.ConditionReady, status, reason, strings.Join(problems, "\n"))
}

// conditionOf returns the condition of a term, and false when it does not count because it is missing.
func (f readyFacts) conditionOf(t term) (metav1.Condition, bool) {
	c, found := engine.Find(f.Conditions, t.kind)
	switch {
	case !found && t.optional, f.Deleting && t.kind != contract.ConditionDeleting: // missing objects are expected in a deletion
		return c, false
	case !found:
		return engine.Condition(t.kind, metav1.ConditionUnknown, ReasonNotYetReported, notReported), true
	case t.kind == contract.ConditionDeleting && f.Deleting: // a fixed line: owners of many Machines group them by equal messages
		c.Message = "Machine deletion in progress, stage: " + c.Reason
	}
	return c, true
}

// decideAvailable computes Available: a Machine is available when it has been ready for minReadySeconds. since is the transition time of
// Ready, which another process may have written with a clock that is ahead. again is the rest of that time, zero when the Machine does not
// wait for it.
func decideAvailable(
	ready metav1.ConditionStatus, since time.Time, minReady time.Duration, now time.Time,
) (c metav1.Condition, again time.Duration) {
	if ready != metav1.ConditionTrue {
		return engine.Condition(contract.ConditionAvailable, metav1.ConditionFalse, contract.ReasonNotReady, ""), 0
	}
	if left := since.Add(minReady).Sub(now); left > 0 && minReady > 0 {
		return engine.Condition(contract.ConditionAvailable, metav1.ConditionFalse, ReasonWaitingForMinReadySeconds, ""), left
	}
	return engine.Condition(contract.ConditionAvailable, metav1.ConditionTrue, contract.ReasonAvailable, ""), 0
}
