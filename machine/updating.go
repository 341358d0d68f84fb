package machine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// decideUpdating goes by the marks of whoever owns the Machine.
func decideUpdating(state *contract.MachineState) metav1.Condition {
	if state.UpdatingInPlace() {
		return condition(ConditionUpdating, metav1.ConditionTrue, ReasonInPlaceUpdating, "In-place update in progress")
	}
	return condition(ConditionUpdating, metav1.ConditionFalse, ReasonNotUpdating, "")
}

// updating is the condition Updating of this pass. What a policy leaves open is filled in, because the API server refuses it.
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
