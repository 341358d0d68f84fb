package runner

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/drain"
)

// Reasons of the conditions that [Result.Condition] and [VolumesResult.Condition] return.
const (
	ConditionDrained         = "Drained"         // True
	ConditionDraining        = "Draining"        // False: Pods are leaving or wait for their turn
	ConditionDrainBlocked    = "DrainBlocked"    // False: see Result.Blockers
	ConditionVolumesDetached = "VolumesDetached" // True
	ConditionVolumesLeft     = "VolumesLeft"     // True: the wait was stopped, volumes are still attached
	ConditionVolumesAttached = "VolumesAttached" // False
)

// maxConditionMessage limits the message of a condition; the API allows 32768.
const maxConditionMessage = 4096

// Condition returns the result as a condition of the given type: True when Done, otherwise False. Equal results give equal conditions: the
// message is Result.Message, cut after a line at 4096 bytes, without times. The caller sets LastTransitionTime and ObservedGeneration
// (meta.SetStatusCondition).
func (r Result) Condition(conditionType string) metav1.Condition {
	c := metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: ConditionDraining, Message: cut(r.Message)}
	switch {
	case r.Done:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ConditionDrained, ""
	case len(r.Blockers) > 0:
		c.Reason = ConditionDrainBlocked
	}
	return c
}

// Condition returns the result as a condition of the given type: True when Done, also when the wait was stopped with volumes left,
// otherwise False. See [Result.Condition].
func (r VolumesResult) Condition(conditionType string) metav1.Condition {
	c := metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: ConditionVolumesAttached, Message: cut(r.Message)}
	switch {
	case r.Done && r.Stopped != drain.VolumesNotStopped:
		c.Status, c.Reason = metav1.ConditionTrue, ConditionVolumesLeft
	case r.Done:
		c.Status, c.Reason = metav1.ConditionTrue, ConditionVolumesDetached
	}
	return c
}

// cut limits a message, at the end of a line if possible.
func cut(message string) string {
	const more = "\n..."
	if len(message) <= maxConditionMessage {
		return message
	}
	message = strings.ToValidUTF8(message[:maxConditionMessage-len(more)], "")
	if end := strings.LastIndexByte(message, '\n'); end > 0 {
		message = message[:end]
	}
	return message + more
}
