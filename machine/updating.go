package machine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// decideUpdating reads the annotations that the owner of the Machine sets.
func decideUpdating(state *contract.MachineState) metav1.Condition {
	if state.UpdatingInPlace() {
		return condition(ConditionUpdating, metav1.ConditionTrue, ReasonInPlaceUpdating, "In-place update in progress")
	}
	return condition(ConditionUpdating, metav1.ConditionFalse, ReasonNotUpdating, "")
}

// updating returns the condition Updating of this pass. It sets the fields that a policy leaves empty, because the API server would reject
// them.
func (s *Scope) updating() metav1.Condition {
	decide := s.env.options.Policy.Updating
	if decide == nil {
		return decideUpdating(&s.State)
	}
	c := decide(&s.State)
	c.Type = ConditionUpdating
	switch {
	case c.Status == "":
		c.Status = metav1.ConditionUnknown
		fallthrough
	case c.Reason == "" && c.Status == metav1.ConditionUnknown:
		c.Reason = ReasonNotYetReported
	case c.Reason == "" && c.Status == metav1.ConditionTrue:
		c.Reason = ReasonUpdating
	case c.Reason == "":
		c.Reason = ReasonNotUpdating
	}
	return c
}
