package remediation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// maxTargets is how many names the status may have. The schema of Cluster API allows as many.
const maxTargets = 10_000

// statusStep sets the status. It leaves alone what this pass has not decided.
func statusStep(_ context.Context, s *scope) (result, error) {
	if !s.decided {
		return result{}, nil
	}
	d, u := s.decision, &s.Update
	u.ExpectedMachines, u.CurrentHealthy = contract.SetTo(int32(d.Expected)),
		contract.SetTo(int32(d.Healthy)) //nolint:gosec // counts of objects
	u.RemediationsAllowed = contract.SetTo(int32(d.Remaining)) //nolint:gosec // not more than those
	u.Targets = contract.SetTo(d.Targets[:min(len(d.Targets), maxTargets)])
	allowed := engine.Condition(contract.ConditionRemediationAllowed, metav1.ConditionTrue, d.Reason, d.Message)
	if !d.Allowed {
		allowed.Status = metav1.ConditionFalse
	}
	old, _ := engine.Find(s.Stored, contract.ConditionRemediationAllowed)
	s.Assert(allowed)
	changed := old.Status != allowed.Status || old.Reason != allowed.Reason
	news := old.Message != allowed.Message // whether others may be remediated changes nothing about an outage
	if changed && news && d.Unhealthy > 0 && d.Message != "" {
		s.told = append(s.told, engine.Event{
			Kind: corev1.EventTypeWarning, Reason: ReasonRemediationRestricted, Action: actionRemediate, Note: d.Message,
		})
	}
	return result{}, nil
}
