package remediation

import (
	"cmp"
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

// ReasonSelectorUnreadable is the reason of RemediationAllowed when spec.selector is invalid: no Machine is checked.
const ReasonSelectorUnreadable = "SelectorUnreadable"

// planStep decides about the Machines, and stores the ledger before anything is done. Nothing is done while a webhook removes the ledger.
func planStep(ctx context.Context, s *scope) (result, error) {
	s.recordRequests()
	facts := healthcheck.PlanFacts{
		Machines: make([]healthcheck.Machine, 0, len(s.members)), Shared: s.shared,
		MaxUnhealthy: s.State.MaxUnhealthy, UnhealthyRange: s.State.UnhealthyRange,
		Ledger: s.ledger, Known: s.ledgerKnown, External: s.external(), Now: s.Now,
	}
	for _, m := range s.members {
		facts.Machines = append(facts.Machines, m.plan)
	}
	s.decision = healthcheck.Plan(facts)
	s.Requeue(s.decision.NextCheck)
	text := s.decision.Ledger.String()
	s.ChangeAnnotation(healthcheck.LedgerAnnotation, contract.SetTo(text))
	if err := s.Commit(ctx); err != nil {
		return result{Stop: true}, err
	}
	if text != s.State.Annotations[healthcheck.LedgerAnnotation] { // otherwise more Machines would be marked than the limit allows
		return result{Stop: true}, errors.New("the API server does not keep the annotation " + healthcheck.LedgerAnnotation)
	}
	s.decided = true
	return result{}, nil
}

// maxTargets is the maximum number of names in the status, from the schema of Cluster API.
const maxTargets = 10_000

// statusStep sets the status. It does not change fields that this pass has not decided.
func statusStep(_ context.Context, s *scope) (result, error) {
	if !s.decided {
		return result{}, nil
	}
	d, u := s.decision, &s.Update
	u.ExpectedMachines, u.CurrentHealthy = contract.SetTo(int32(d.Expected)),
		contract.SetTo(int32(d.Healthy)) //nolint:gosec // counts of objects
	u.RemediationsAllowed = contract.SetTo(int32(d.Remaining)) //nolint:gosec // not more than those
	var targets []string
	for _, o := range d.Outcomes[:min(len(d.Outcomes), maxTargets)] {
		targets = append(targets, o.Name)
	}
	u.Targets = contract.SetTo(targets)
	allowed := engine.Condition(contract.ConditionRemediationAllowed, metav1.ConditionTrue, d.Reason, d.Message)
	if !d.Allowed {
		allowed.Status = metav1.ConditionFalse
	}
	old, _ := engine.Find(s.Stored, contract.ConditionRemediationAllowed)
	s.Assert(allowed)
	changed := old.Status != allowed.Status || old.Reason != allowed.Reason
	if changed && old.Message != d.Message && d.Unhealthy > 0 && d.Message != "" { // other changes do not concern an outage
		s.restricted = d.Message
	}
	return result{}, nil
}

// rival is an older check of the cluster.
type rival struct {
	name     string
	selector labels.Selector
}

// readRivals reads the checks that judge Machines before this one. Two checks that judge a Machine by different rules would overwrite its
// conditions in turn, forever. A check that is paused or being deleted writes none.
func (s *scope) readRivals(ctx context.Context) error {
	own := &s.State
	return s.env.frame.Each(ctx, own.Key.Namespace, "", func(obj client.Object) {
		var other contract.HealthCheckState
		if s.env.frame.Read(obj, &other) != nil || other.ClusterName != own.ClusterName || !other.Deleting.IsZero() || other.Paused() ||
			cmp.Or(other.Created.Compare(own.Created), cmp.Compare(other.Key.Name, own.Key.Name)) >= 0 {
			return
		}
		if selector, err := selectorOf(&other); err == nil {
			s.rivals = append(s.rivals, rival{other.Key.Name, selector})
		}
	})
}
