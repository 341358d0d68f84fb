package machine

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/noderef/propagate"
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
	set := rollout.Set{Created: f.Rollout.Set.Created, MadeFor: rollout.ParseMadeFor(f.Rollout.Set.Annotations)}
	if after := f.Rollout.Deployment.RolloutAfter; !set.MadeSince(after) {
		if left := after.Sub(f.Now); left >= 0 {
			again = left + time.Second // it has to be over
		} else {
			lines = append(lines, "MachineDeployment spec.rolloutAfter expired")
		}
	}
	notUpToDate := func(reason, message string) (metav1.Condition, time.Duration) {
		return engine.Condition(contract.ConditionUpToDate, metav1.ConditionFalse, reason, "* "+message), again
	}
	switch {
	case len(lines) > 0:
		return notUpToDate(contract.ReasonNotUpToDate, strings.Join(lines, "\n* "))
	case f.Updating.Status == metav1.ConditionTrue:
		return notUpToDate(ReasonUpdating, cmp.Or(f.Updating.Message, "In-place update in progress"))
	case f.KubeletVersion != "" && !contract.IsVersion(f.KubeletVersion, f.Version):
		return notUpToDate(ReasonUpdating, fmt.Sprintf("Node.status.nodeInfo.kubeletVersion %s, %s required", f.KubeletVersion, f.Version))
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

// rollout calls RolloutOf once in a pass, unless the Machine is being deleted.
func (s *Scope) rollout(ctx context.Context) (*Rollout, error) {
	ask := s.env.ports.RolloutOf
	if ask == nil || s.Deleting() {
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
	case err != nil || (found.Unread && !s.Deleting() && s.env.ports.RolloutOf != nil):
		if _, said := s.Condition(contract.ConditionUpToDate); !said && s.State.Labels[contract.DeploymentNameLabel] != "" {
			s.Assert(engine.Condition(contract.ConditionUpToDate, metav1.ConditionUnknown, contract.ReasonInternalError, engine.SeeLogs))
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

// outdatedTaint asks schedulers to prefer Nodes that are not about to be replaced. Rule: Cluster API proposal
// 20230522, "NodeOutdatedRevisionTaint".
func outdatedTaint() corev1.Taint {
	return corev1.Taint{Key: "node.cluster.x-k8s.io/outdated-revision", Effect: corev1.TaintEffectPreferNoSchedule}
}

// decideOutdated reports whether a Node should have the taint: its MachineSet has an older revision than its MachineDeployment. known is
// false while a revision is unknown; then the taint stays as it is.
func decideOutdated(r *Rollout) (outdated, known bool) {
	if r.Unread {
		return false, false
	}
	if !r.Found {
		return false, true
	}
	set, ok := revisionOf(&r.Set.Metadata)
	deployment, ok2 := revisionOf(&r.Deployment.Metadata)
	return set < deployment, ok && ok2
}

// revisionOf returns 0 without a revision, and false for one that is not a number.
func revisionOf(m *contract.Metadata) (int64, bool) {
	text, found := m.Annotations[contract.RevisionAnnotation]
	if !found {
		return 0, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// markOutdated adds the taint of an outdated revision to the desired state of a Node, or its absence. The error of a failed lookup is
// reported with the condition UpToDate.
func (s *Scope) markOutdated(ctx context.Context, d *propagate.Desired) {
	found, err := s.rollout(ctx)
	if err != nil {
		return
	}
	outdated, known := decideOutdated(found)
	switch {
	case !known:
	case outdated: // not recorded as managed by the Machine, because it is not
		d.Taints = append(d.Taints, propagate.Taint{Taint: outdatedTaint(), Propagation: propagate.WhenMissing})
	default:
		d.WithoutTaints = append(d.WithoutTaints, outdatedTaint())
	}
}
