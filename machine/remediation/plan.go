package remediation

import (
	"cmp"
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

// ReasonSelectorUnreadable is the reason of RemediationAllowed when spec.selector cannot be read: no Machine is checked.
const ReasonSelectorUnreadable = "SelectorUnreadable"

// planStep decides what happens to the Machines, and stores the ledger before anything does. Nothing does while a webhook takes it away.
func planStep(ctx context.Context, s *scope) (result, error) {
	stored := s.State.Annotations[healthcheck.LedgerAnnotation]
	ledger, known := healthcheck.ParseLedger(stored, s.State.UID)
	known = known || stored == "" && !s.State.ExpectedMachines.Found() // a check without a status has lost no ledger
	facts := healthcheck.PlanFacts{
		LimitAlone: s.env.options.LimitAlone, Ledger: ledger, Known: known, External: s.external(), Now: s.Now,
		Machines: make([]healthcheck.Machine, 0, len(s.members)),
	}
	for _, m := range s.members {
		facts.Machines = append(facts.Machines, m.plan)
	}
	facts.Limit, facts.LimitErr = healthcheck.ParseLimit(s.State.MaxUnhealthy, s.State.UnhealthyRange)
	facts.LimitErr = cmp.Or(s.selectorErr, facts.LimitErr)
	if s.decision = healthcheck.Plan(facts); s.selectorErr != nil {
		s.decision.Reason = ReasonSelectorUnreadable
	}
	s.Requeue(s.decision.NextCheck)
	text, remembers := s.decision.Ledger.String(), !facts.LimitAlone
	if remembers && text != s.State.Annotations[healthcheck.LedgerAnnotation] {
		s.ChangeAnnotation(healthcheck.LedgerAnnotation, contract.SetTo(text))
	}
	s.recordRequests()
	if err := s.Commit(ctx); err != nil {
		return result{Stop: true}, err
	}
	if remembers && text != s.State.Annotations[healthcheck.LedgerAnnotation] { // more would be marked than the limit allows
		return result{Stop: true}, errors.New("the API server does not keep the annotation " + healthcheck.LedgerAnnotation)
	}
	s.decided = true
	return result{}, nil
}

// rival is an older check of the cluster.
type rival struct {
	name     string
	selector labels.Selector
}

// olderChecks returns the checks that judge Machines before this one. Two checks that judge a Machine by different rules
// would write its conditions in turn, for ever. One that is paused or being deleted writes none.
func (s *scope) olderChecks(ctx context.Context) ([]rival, error) {
	var rivals []rival
	err := s.env.frame.Each(ctx, s.State.Key.Namespace, "", func(obj client.Object) {
		var other contract.HealthCheckState
		if s.env.frame.Read(obj, &other) != nil || other.UID == s.State.UID || other.ClusterName != s.State.ClusterName ||
			!other.Deleting.IsZero() || other.Paused() || !isOlder(&other, &s.State) {
			return
		}
		if selector, err := selectorOf(&other); err == nil {
			rivals = append(rivals, rival{other.Key.Name, selector})
		}
	})
	return rivals, err
}

func isOlder(a, b *contract.HealthCheckState) bool {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key.Name, b.Key.Name)) < 0
}

// sharedWith names an older check that selects a Machine.
func (s *scope) sharedWith(of map[string]string) string {
	for _, r := range s.rivals {
		if r.selector.Matches(labels.Set(of)) {
			return r.name
		}
	}
	return ""
}
