package describe

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine"
)

// Wait is one thing that a Machine waits for.
type Wait struct {
	// For is the condition, or what else shows it: Paused, Reconciler, Failure.
	For    string `json:"for"`
	Reason string `json:"reason,omitempty"`
	// Since is when the condition changed last, nil when unknown.
	Since *time.Time `json:"since,omitempty"`
	// Limit is for how long it waits at most, counted from Since; zero for no limit.
	Limit   time.Duration `json:"limit,omitempty"`
	Message string        `json:"message,omitempty"`
	// Do is what a person can do. It is never empty.
	Do string `json:"do"`
}

// What a Wait is for that no condition shows.
const (
	ForReconciler = "Reconciler"
	ForFailure    = "Failure"
)

// startOrder are the conditions of a Machine that starts, in the order in which they become True. Each needs those before it.
func startOrder() []string {
	return []string{contract.ConditionBootstrapConfigReady, contract.ConditionInfrastructureReady, contract.ConditionNodeReady,
		machine.ConditionNodeHealthy}
}

// Waits returns what a Machine waits for now, with the cause before its consequences: of the conditions that need each other only the first
// one that is not True. It returns none for a Machine that is as it should be. It does not change its input.
func Waits(m *contract.MachineState, now time.Time) []Wait {
	switch paused := meta.FindStatusCondition(m.Conditions, contract.ConditionPaused); {
	case paused != nil && paused.Status == metav1.ConditionTrue:
		return []Wait{waitOf(paused)} // the other conditions are as old as the pause
	case len(m.Conditions) == 0 && m.Phase == "":
		return []Wait{{For: ForReconciler, Since: timeOf(m.Created), Message: "no reconciler has written a status", Do: adviceNoStatus}}
	case !m.Deleting.IsZero():
		return []Wait{deletion(m, now)}
	}
	waits := slices.Concat(failure(m), starting(m), unhealthy(m), updating(m))
	if c := notTrue(m, contract.ConditionAvailable); len(waits) == 0 && c != nil {
		waits = []Wait{waitOf(c)}
	}
	return waits
}

func failure(m *contract.MachineState) []Wait {
	if m.FailureReason == "" && m.FailureMessage == "" {
		return nil
	}
	return []Wait{{For: ForFailure, Reason: m.FailureReason, Message: m.FailureMessage, Do: adviceFailed}}
}

// starting is the first of the conditions that need each other which is not True.
func starting(m *contract.MachineState) []Wait {
	for _, kind := range startOrder() {
		if c := notTrue(m, kind); c != nil {
			return []Wait{waitOf(c)}
		}
	}
	return nil
}

// unhealthy is what a health check has found, and the remediation that follows.
func unhealthy(m *contract.MachineState) []Wait {
	var waits []Wait
	for _, kind := range []string{contract.ConditionHealthCheckSucceeded, contract.ConditionOwnerRemediated,
		contract.ConditionExternallyRemediated} {
		if c := notTrue(m, kind); c != nil && c.Status == metav1.ConditionFalse {
			waits = append(waits, waitOf(c))
		}
	}
	return waits
}

// updating is an update in place, and that the Machine is not as its owner wants it.
func updating(m *contract.MachineState) []Wait {
	var waits []Wait
	if c := meta.FindStatusCondition(m.Conditions, contract.ConditionUpdating); c != nil && c.Status == metav1.ConditionTrue {
		waits = append(waits, waitOf(c))
	}
	if c := notTrue(m, contract.ConditionUpToDate); c != nil && c.Status == metav1.ConditionFalse {
		w := waitOf(c)
		w.Do = adviceNotUpToDate
		waits = append(waits, w)
	}
	return waits
}

// notTrue returns a condition that there is and that is not True, or nil.
func notTrue(m *contract.MachineState, kind string) *metav1.Condition {
	c := meta.FindStatusCondition(m.Conditions, kind)
	if c == nil || c.Status == metav1.ConditionTrue {
		return nil
	}
	return c
}

// deletion is what a Machine waits for that is being deleted.
func deletion(m *contract.MachineState, now time.Time) Wait {
	c := meta.FindStatusCondition(m.Conditions, contract.ConditionDeleting)
	if c == nil || c.Status != metav1.ConditionTrue {
		return Wait{For: contract.ConditionDeleting, Since: timeOf(m.Deleting), Message: "no reconciler has begun with the deletion",
			Do: adviceNoStatus}
	}
	w := waitOf(c)
	stage, limit := stage(m, c.Reason)
	began := m.Deletion(now).Stages[stage].Start
	w.Since = timeOf(slices.MaxFunc([]time.Time{c.LastTransitionTime.Time, m.Deleting, began}, time.Time.Compare))
	if !began.IsZero() {
		w.Since, w.Limit = timeOf(began), limit.Or(0)
	}
	return w
}

// stage returns the recorded stage of a deletion that has a reason, and the limit of the Machine for it.
func stage(m *contract.MachineState, reason string) (name string, limit contract.Opt[time.Duration]) {
	switch reason {
	case contract.ReasonDrainingNode:
		return machine.StepDrain, m.NodeDrainTimeout
	case machine.ReasonWaitingForVolumeDetach:
		return machine.StepVolumes, m.NodeVolumeDetachTimeout
	case machine.ReasonWaitingForPreTerminateHook:
		return machine.StepPreTerminateHooks, limit
	case contract.ReasonDeletingNode:
		return machine.StepDeleteNode, m.NodeDeletionTimeout
	}
	return "", limit
}

func waitOf(c *metav1.Condition) Wait {
	return Wait{For: c.Type, Reason: c.Reason, Since: timeOf(c.LastTransitionTime.Time), Message: c.Message,
		Do: cmp.Or(Advice()[c.Reason], adviceOf(c.Type))}
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
