package deployment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/rollout"
)

// upToDateFacts are the inputs of decideUpToDate.
type upToDateFacts struct {
	// Set is the MachineSet of the Machine, and Deployment the MachineDeployment of the set.
	Set        *contract.MachineSetState
	Deployment *contract.MachineDeploymentState
	// Updating is the condition of the Machine.
	Updating metav1.Condition
	Now      time.Time
}

// decideUpToDate compares the set's template with the deployment's, because rollouts depend on these; manual changes of a Machine do not
// count. again is when a scheduled rollout is due, zero without. Rule: Cluster API's setUpToDateCondition and MachineTemplateUpToDate.
func decideUpToDate(f upToDateFacts) (c metav1.Condition, again time.Duration) {
	lines := templateDiff(&f.Set.Template.MachineSpec, &f.Deployment.Template.MachineSpec)
	set := rollout.Set{Created: f.Set.Created, MadeFor: rollout.ParseMadeFor(f.Set.Annotations)}
	if after := f.Deployment.RolloutAfter; !set.MadeSince(after) {
		if left := after.Sub(f.Now); left >= 0 {
			again = left + time.Second // it has to be over
		} else {
			lines = append(lines, "MachineDeployment spec.rolloutAfter expired")
		}
	}
	not := func(reason, message string) metav1.Condition {
		return engine.Condition(contract.ConditionUpToDate, metav1.ConditionFalse, reason, "* "+message)
	}
	switch {
	case len(lines) > 0:
		return not(contract.ReasonNotUpToDate, strings.Join(lines, "\n* ")), again
	case f.Updating.Status == metav1.ConditionTrue:
		return not(contract.ReasonUpdating, cmp.Or(f.Updating.Message, "In-place update in progress")), again
	}
	return engine.Condition(contract.ConditionUpToDate, metav1.ConditionTrue, contract.ReasonUpToDate, ""), again
}

// templateDiff names the fields that cannot be changed in place and differ between two templates.
func templateDiff(current, desired *contract.MachineSpec) []string {
	var lines []string
	if current.Version != desired.Version {
		lines = append(lines, fmt.Sprintf("Version %s, %s required", current.Version, desired.Version))
	}
	if current.Bootstrap != desired.Bootstrap || current.DataSecretName != desired.DataSecretName {
		if current.Bootstrap.IsZero() {
			lines = append(lines, fmt.Sprintf("spec.bootstrap.dataSecretName %s, %s required",
				current.DataSecretName.Or("nil"), desired.DataSecretName.Or("nil")))
		} else {
			lines = append(lines, strings.TrimSuffix(current.Bootstrap.Kind, "Template")+" is not up-to-date")
		}
	}
	if current.Infrastructure != desired.Infrastructure {
		lines = append(lines, strings.TrimSuffix(current.Infrastructure.Kind, "Template")+" is not up-to-date")
	}
	if current.WantedFailureDomain != desired.WantedFailureDomain {
		lines = append(lines, fmt.Sprintf("Failure domain %s, %s required", current.WantedFailureDomain, desired.WantedFailureDomain))
	}
	return lines
}

// upToDateStep sets the condition UpToDate of the Machines. A Machine that is paused or being deleted keeps what it has, and so does one
// that no reconciler has looked at yet: its first status comes first.
func upToDateStep(ctx context.Context, s *Scope) (engine.Result, error) {
	var errs []error
	for _, one := range s.observed {
		for _, m := range one.machines {
			if m.State.Deleting.IsZero() && !m.State.Paused() && len(m.State.Conditions) > 0 && !s.env.frame.Writer.Behind(m.Object) {
				errs = append(errs, s.setUpToDate(ctx, one, m))
			}
		}
	}
	return engine.Result{}, errors.Join(errs...)
}

// setUpToDate writes the condition of a Machine when it changes.
func (s *Scope) setUpToDate(ctx context.Context, of *set, m machine) error {
	facts := upToDateFacts{Set: of.State, Deployment: &s.State, Now: s.Now}
	facts.Updating, _ = engine.Find(m.State.Conditions, contract.ConditionUpdating)
	is, again := decideUpToDate(facts)
	s.Requeue(again)
	changed := contract.ChangedConditions(m.State.Conditions, []metav1.Condition{is}, m.State.Generation, s.Now)
	if len(changed) == 0 {
		return nil
	}
	_, err := engine.WriteStatus(ctx, s.env.frame.Writer, s.env.kinds.Machine, m.Object, contract.MachineUpdate{Conditions: changed})
	if external.SaysGone(err) {
		return nil
	}
	return err
}
