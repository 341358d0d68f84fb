package deployment

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// upToDate returns the condition UpToDate of a Machine. Its set decides: outdated or not, as in the plan. Rollouts depend on that, so
// manual changes of a Machine do not count.
func (m *set) upToDate(outdated bool, updating metav1.Condition) metav1.Condition {
	status, reason, message := metav1.ConditionFalse, contract.ReasonNotUpToDate, "* "
	switch {
	case outdated:
		message += cmp.Or(strings.Join(m.diff, "\n* "), "The rollout replaces the Machines of "+m.Key.Name)
	case updating.Status == metav1.ConditionTrue:
		reason = contract.ReasonUpdating
		message += cmp.Or(updating.Message, "In-place update in progress")
	default:
		status, reason, message = metav1.ConditionTrue, contract.ReasonUpToDate, ""
	}
	return engine.Condition(contract.ConditionUpToDate, status, reason, engine.Bounded(message, engine.MaxMessageLength))
}

// upToDateStep sets the condition UpToDate of the Machines. It does not change a Machine that is paused, being deleted, or not yet observed
// by a reconciler, whose first status comes first.
func upToDateStep(ctx context.Context, s *Scope) (engine.Result, error) {
	s.decide()
	var errs []error
	for _, one := range s.observed {
		outdated := slices.Contains(s.plan.Outdated, one.UID)
		for _, m := range one.machines {
			updating, _ := engine.Find(m.State.Conditions, contract.ConditionUpdating)
			want := []metav1.Condition{one.upToDate(outdated, updating)}
			keeps := !m.State.Deleting.IsZero() || m.State.Paused() || len(m.State.Conditions) == 0
			if keeps || s.env.frame.Writer.Behind(m.Object) {
				continue
			}
			_, err := engine.WriteConditions(ctx, s.env.frame.Writer, s.env.kinds.Machine, m.Object, m.State, want, nil, s.Now)
			if !external.IsGone(err) {
				errs = append(errs, err)
			}
		}
	}
	return engine.Result{}, errors.Join(errs...)
}
