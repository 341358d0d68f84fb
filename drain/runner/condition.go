package runner

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/drain"
)

// Reasons of the conditions that [Result.Condition] and [VolumesResult.Condition] return.
const (
	ConditionDrained         = "Drained"         // True
	ConditionDraining        = "Draining"        // False: pods are on their way or wait for their turn
	ConditionDrainBlocked    = "DrainBlocked"    // False: see Result.Blockers
	ConditionVolumesDetached = "VolumesDetached" // True
	ConditionVolumesLeft     = "VolumesLeft"     // True: the wait was stopped, volumes are still attached
	ConditionVolumesAttached = "VolumesAttached" // False
)

// maxConditionMessage is how long a condition's message gets; the API allows 32768.
const maxConditionMessage = 4096

// Condition returns the result as a condition of the given type: True when Done, else False. Equal results give equal
// conditions: the message is Result.Message, cut after a line at 4096 bytes, and there are no times in it.
// LastTransitionTime and ObservedGeneration are left to the caller (meta.SetStatusCondition).
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

// Condition returns the result as a condition of the given type: True when Done, also when the wait was stopped with
// volumes left, else False. See [Result.Condition].
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

// cut bounds a message at the end of a line where it can.
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
