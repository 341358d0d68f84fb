package machine

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// updateHook is the runtime hook that updates a machine in place.
const updateHook = "UpdateMachine"

// decideUpdating goes by the marks of whoever owns the Machine: one that is being updated has the annotation, or the hook is still
// to be called for it. Rule: Cluster API proposal 20240807, "in-place updates".
func decideUpdating(state *contract.MachineState) metav1.Condition {
	_, marked := state.Annotations[contract.InPlaceUpdateAnnotation]
	pending := strings.Split(state.Annotations[contract.PendingHooksAnnotation], ",")
	if marked || slices.Contains(pending, updateHook) {
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
