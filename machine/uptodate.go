package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// Rollout is what a Machine is measured against to tell whether it is up to date. Strings, maps and slices are read-only views.
type Rollout struct {
	// Found says that the Machine has both a MachineSet and a MachineDeployment. Without, nobody says what it should be like, and its
	// condition UpToDate is somebody else's to set: it is left as it is.
	Found bool
	// Unread says that it is not known yet whether it has: everything stays as it is, and RolloutEvents wakes the Machine.
	Unread bool
	// Set is the MachineSet that controls the Machine, Deployment the MachineDeployment that controls the set.
	Set        contract.MachineSetState
	Deployment contract.MachineDeploymentState
}

// RolloutMapper names the Machines of a MachineDeployment. It reads a cache, and may be called from several goroutines.
type RolloutMapper func(deployment types.NamespacedName) []reconcile.Request

// inDeployment returns the Machines that carry the label of a MachineDeployment.
func (r *Reconciler) inDeployment(ctx context.Context, deployment types.NamespacedName) []reconcile.Request {
	return r.machinesByKey(ctx, deployment.Namespace, deploymentKey(deployment.Name))
}

// upToDateFacts are what the condition UpToDate depends on.
type upToDateFacts struct {
	Rollout *Rollout
	// Updating is the condition.
	Updating metav1.Condition
	// Version is what the Machine asks for and KubeletVersion what its Node reports, empty without.
	Version, KubeletVersion string
	Now                     time.Time
}

// decideUpToDate measures the set's template against the deployment's, because that is what rollouts go by; a Machine that was
// changed by hand is none of their business. again is when an appointed rollout is due, zero without. Rule: Cluster API's
// setUpToDateCondition and MachineTemplateUpToDate.
func decideUpToDate(f upToDateFacts) (c metav1.Condition, again time.Duration) {
	lines := templateDiff(&f.Rollout.Set.Template.MachineSpec, &f.Rollout.Deployment.Template.MachineSpec)
	if after := f.Rollout.Deployment.RolloutAfter; !after.IsZero() && f.Rollout.Set.Created.Before(after) {
		if left := after.Sub(f.Now); left >= 0 {
			again = left + time.Second // it has to be over
		} else {
			lines = append(lines, "MachineDeployment spec.rolloutAfter expired")
		}
	}
	if len(lines) > 0 {
		return condition(ConditionUpToDate, metav1.ConditionFalse, ReasonNotUpToDate, "* "+strings.Join(lines, "\n* ")), again
	}
	if f.Updating.Status == metav1.ConditionTrue {
		message := f.Updating.Message
		if message == "" {
			message = "In-place update in progress"
		}
		return condition(ConditionUpToDate, metav1.ConditionFalse, ReasonUpdating, "* "+message), again
	}
	if f.Version != "" && f.KubeletVersion != "" && f.KubeletVersion != f.Version {
		return condition(ConditionUpToDate, metav1.ConditionFalse, ReasonUpdating,
			fmt.Sprintf("* Node.status.nodeInfo.kubeletVersion %s, %s required", f.KubeletVersion, f.Version)), again
	}
	return condition(ConditionUpToDate, metav1.ConditionTrue, ReasonUpToDate, ""), again
}

// templateDiff says in which of the things that cannot be changed in place two templates differ.
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

// rollout asks once in a pass, and for a Machine that lives.
func (s *Scope) rollout(ctx context.Context) (*Rollout, error) {
	ask := s.env.ports.RolloutOf
	if ask == nil || !s.State.Deleting.IsZero() {
		return &Rollout{Unread: true}, nil
	}
	if s.measure == nil && s.measureErr == nil {
		found, err := ask(ctx, &s.State)
		if err != nil {
			s.measureErr = fmt.Errorf("read the MachineSet and the MachineDeployment: %w", err)
		}
		s.measure = &found
	}
	return s.measure, s.measureErr
}

// assertUpToDate returns when time alone changes what UpToDate says. While nothing is known what was said stays, but a Machine of a
// deployment does not go without the condition.
func (s *Scope) assertUpToDate(ctx context.Context) (time.Duration, error) {
	found, err := s.rollout(ctx)
	switch {
	case err != nil || (found.Unread && s.State.Deleting.IsZero() && s.env.ports.RolloutOf != nil):
		_, said := s.Condition(ConditionUpToDate)
		if !said && s.State.Labels[contract.DeploymentNameLabel] != "" {
			s.Assert(condition(ConditionUpToDate, metav1.ConditionUnknown, ReasonInternalError, seeLogs))
		}
		return 0, err
	case found.Unread || !found.Found:
		return 0, nil
	}
	facts := upToDateFacts{Rollout: found, Version: s.State.Version, Now: s.Now}
	facts.Updating, _ = s.Condition(ConditionUpdating)
	if node := s.Node.Node; node != nil {
		facts.KubeletVersion = node.Status.NodeInfo.KubeletVersion
	}
	c, again := decideUpToDate(facts)
	s.Assert(c)
	return again, nil
}
