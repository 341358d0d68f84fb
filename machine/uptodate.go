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

// Rollout is the specification that a Machine is compared with to decide whether it is up to date. Strings, maps and slices are read-only
// views.
type Rollout struct {
	// Found is true when the Machine has both a MachineSet and a MachineDeployment. Without them there is nothing to compare with, and the
	// condition UpToDate stays as it is: another controller may set it.
	Found bool
	// Unread is true when that is not known yet: everything stays as it is, and RolloutEvents wakes the Machine.
	Unread bool
	// Set is the MachineSet that controls the Machine, Deployment the MachineDeployment that controls the set.
	Set        contract.MachineSetState
	Deployment contract.MachineDeploymentState
}

// RolloutMapper returns the Machines of a MachineDeployment. It reads a cache, and may be called from several goroutines.
type RolloutMapper func(deployment types.NamespacedName) []reconcile.Request

// inDeployment returns the Machines that carry the label of a MachineDeployment.
func (r *Reconciler) inDeployment(ctx context.Context, deployment types.NamespacedName) []reconcile.Request {
	return r.machinesByKey(ctx, deployment.Namespace, deploymentKey(deployment.Name))
}

// upToDateFacts are the inputs of decideUpToDate.
type upToDateFacts struct {
	Rollout *Rollout
	// Updating is the condition.
	Updating metav1.Condition
	// Version is the version in the Machine's spec and KubeletVersion the one that its Node reports, empty without.
	Version, KubeletVersion string
	Now                     time.Time
}

// decideUpToDate compares the set's template with the deployment's, because rollouts depend on these; manual changes of a Machine do not
// count. again is when a scheduled rollout is due, zero without. Rule: Cluster API's setUpToDateCondition and MachineTemplateUpToDate.
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

// rollout calls RolloutOf once in a pass, unless the Machine is being deleted.
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

// assertUpToDate returns when UpToDate changes with time. While the rollout is unknown the stored condition stays; a Machine of a
// deployment without a stored condition gets one.
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
