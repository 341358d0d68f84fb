package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

const (
	// fleet is the name of the MachineDeployment, which has fleetSize Machines, and of their templates.
	fleet     = "fleet"
	fleetSize = 2
	// The versions that its rollout starts from and goes to.
	oldVersion = "v1.36.2"
	newVersion = "v1.36.3"
)

func capi(kind string) schema.GroupVersionKind {
	return fake.MachineGVK().GroupVersion().WithKind(kind)
}

// templates are the kinds of what new Machines are made from.
func templates() []schema.GroupVersionKind {
	infra, bootstrap := fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2)
	return []schema.GroupVersionKind{
		infra.GroupVersion().WithKind(infra.Kind + contract.TemplateSuffix),
		bootstrap.GroupVersion().WithKind(bootstrap.Kind + contract.TemplateSuffix),
	}
}

// startFleets adds the reconcilers of MachineSets and MachineDeployments to a manager, and returns what that of Machines needs to say
// whether a Machine is up to date.
func startFleets(ctx context.Context, mgr ctrl.Manager, status time.Duration) (*machine.Rollouts, error) {
	sets, err := machineset.ClusterAPI(contract.V1Beta2)
	if err == nil {
		_, err = machineset.SetupWithManager(ctx, mgr, sets, machineset.Options{StatusDelay: status})
	}
	if err != nil {
		return nil, err
	}
	deployments, err := deployment.ClusterAPI(contract.V1Beta2)
	if err == nil {
		_, err = deployment.SetupWithManager(ctx, mgr, deployments, deployment.Options{StatusDelay: status})
	}
	if err != nil {
		return nil, err
	}
	return machine.RolloutFromManager(mgr, sets.Set, deployments.Deployment)
}

// createFleet creates a MachineDeployment and its templates, as a user does.
func (w *world) createFleet(ctx context.Context) error {
	refs := make([]map[string]any, 0, 2)
	for _, gvk := range templates() {
		spec := map[string]any{"template": map[string]any{"spec": map[string]any{}}}
		template := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		template.SetGroupVersionKind(gvk)
		template.SetNamespace("default")
		template.SetName(fleet)
		if err := w.client.Create(ctx, template); err != nil {
			return fmt.Errorf("create %s %s: %w", gvk.Kind, fleet, err)
		}
		refs = append(refs, map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": fleet})
	}
	labels := map[string]any{"fleet": fleet}
	d := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"clusterName": "demo", "replicas": int64(fleetSize), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
			"clusterName": "demo", "version": oldVersion, "infrastructureRef": refs[0], "bootstrap": map[string]any{"configRef": refs[1]},
		}},
	}}}
	d.SetGroupVersionKind(capi("MachineDeployment"))
	d.SetNamespace("default")
	d.SetName(fleet)
	if err := w.client.Create(ctx, d); err != nil {
		return fmt.Errorf("create MachineDeployment %s: %w", fleet, err)
	}
	return nil
}

// upgradeFleet asks for the next version, as a user does.
func (w *world) upgradeFleet(ctx context.Context) error {
	d := &unstructured.Unstructured{}
	d.SetGroupVersionKind(capi("MachineDeployment"))
	d.SetNamespace("default")
	d.SetName(fleet)
	patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"version":%q}}}}`, newVersion)
	if err := w.client.Patch(ctx, d, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("change MachineDeployment %s: %w", fleet, err)
	}
	return nil
}

// fleetRolls replaces the Machines of the MachineDeployment.
func (s *story) fleetRolls(ctx context.Context) error {
	s.begin("MachineDeployment %s goes from %s to %s, with at most one Machine more and none fewer", fleet, oldVersion, newVersion)
	s.rollout = &rolloutSummary{From: oldVersion, To: newVersion, began: time.Now()}
	if err := s.world.upgradeFleet(ctx); err != nil {
		return err
	}
	err := s.until(ctx, func() bool {
		s.rollout.Most = max(s.rollout.Most, s.picture.fleet(func(*life) bool { return true }))
		return s.fleetRunsAt(newVersion) && s.workloadReady()
	})
	s.rollout.Seconds = seconds(time.Since(s.rollout.began))
	for _, l := range s.picture.machines {
		if l.row.Version == oldVersion && !l.gone.IsZero() {
			s.rollout.Replaced++
		}
	}
	return err
}

// fleetRunsAt reports whether the Machines of the MachineDeployment have a version and run, and there are no others.
func (s *story) fleetRunsAt(version string) bool {
	running := s.picture.fleet(func(l *life) bool { return l.row.Version == version && !l.running.IsZero() })
	return running == fleetSize && s.picture.fleet(func(*life) bool { return true }) == fleetSize
}

// fleet counts the Machines of the MachineDeployment that exist and of which something holds. They are those with a version.
func (p *picture) fleet(holds func(*life) bool) int {
	n := 0
	for _, l := range p.machines {
		if l.row.Version != "" && l.gone.IsZero() && holds(l) {
			n++
		}
	}
	return n
}

// rolloutSummary is about the MachineDeployment.
type rolloutSummary struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Seconds float64 `json:"seconds"`
	// Replaced is how many Machines are gone, and Most is how many there were at most at a time.
	Replaced int `json:"replaced"`
	Most     int `json:"most"`

	began time.Time
}

func (r *rolloutSummary) line() string {
	return fmt.Sprintf("  MachineDeployment %s: %d Machines replaced by ones of %s in %.1f s, with at most %d at a time.",
		fleet, r.Replaced, r.To, r.Seconds, r.Most)
}

// deploymentRow has the columns that kubectl prints for a MachineDeployment.
type deploymentRow struct {
	Replicas  int32 `json:"replicas"`
	UpToDate  int32 `json:"upToDate"`
	Available int32 `json:"available"`
}

func (p *picture) applyFleet(e *event, obj *unstructured.Unstructured) bool {
	var state contract.MachineDeploymentState
	if err := p.fleets.Read(obj, &state); err != nil {
		e.Message = err.Error()
		return true
	}
	row := deploymentRow{state.ObservedReplicas.Or(0), state.UpToDateReplicas.Or(0), state.AvailableReplicas.Or(0)}
	changed := p.rolled == nil || *p.rolled != row
	p.rolled, e.Event, e.Deployment = &row, happenedChanged, &row
	return changed
}
