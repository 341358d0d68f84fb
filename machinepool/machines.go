package machinepool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// machine is a Machine that represents an instance.
type machine = children.Child[contract.MachineState]

// machines are those of a pool.
type machines struct {
	own []machine // sorted by name
	// infra are the InfraMachines by name, nil while they are not known.
	infra map[string]*unstructured.Unstructured
	// foreign are the InfraMachines whose name a Machine of another owner has, sorted.
	foreign []string
	gvk     schema.GroupVersionKind
}

// unhealthy returns the names of the Machines that a health check has marked for replacement.
func (m *machines) unhealthy() []string {
	var names []string
	for _, one := range m.own {
		if scale.Ailing(one.State) {
			names = append(names, one.Key.Name)
		}
	}
	return names
}

// ledByMachines reports whether Machines represent the instances, so that the Machine controller handles their Nodes. While the
// InfraMachinePool is not known, as at the start of a process, existing Machines decide that.
func (p *Scope) ledByMachines() bool {
	if p.machineKind != "" || p.infrastructure.Usable() || !p.env.kinds.makesMachines() {
		return p.machineKind != "" && p.env.kinds.makesMachines()
	}
	return p.machines == nil || len(p.machines.own) > 0
}

// isFree reports whether a Machine has the labels of the pool, and no controller.
func (p *Scope) isFree(m *contract.Metadata) bool {
	return labels.SelectorFromSet(instanceLabels(&p.State)).Matches(labels.Set(m.Labels)) &&
		!slices.ContainsFunc(m.OwnerReferences, engine.IsController)
}

// adopts reports whether the pool adopts a Machine of another owner: it has the labels of the pool and no controller, and stands for an
// InfraMachine of the pool. A restore from a backup without owner references leaves such Machines. Rule: Cluster API's MachinePool
// controller, which finds its Machines by their labels.
func (p *Scope) adopts(ctx context.Context, m *machines, other *contract.MachineState) (bool, error) {
	ref := other.Infrastructure
	if m.infra[ref.Name] == nil || ref.GroupKind() != m.gvk.GroupKind() || !p.isFree(&other.Metadata) {
		return false, nil
	}
	return p.IsSame(ctx) // a pool of before must not adopt what its caches show
}

// machinePlan is what to do about Machines; what has no other order is sorted.
type machinePlan struct {
	// Create are the InfraMachines that get a Machine.
	Create []string
	// Orphaned are Machines without an InfraMachine: the instance is gone. Replace are unhealthy ones, in the order of scale.Remediate.
	Orphaned, Replace []machine
}

// plan decides about Machines, whose deletion may have been requested: each InfraMachine has one Machine, which is found by its reference,
// whatever its name. A Machine is deleted when its InfraMachine is gone, and when a health check requests its replacement, unless it is
// paused; which instances leave when a pool shrinks is the decision of the provider, which deletes Machines. A Machine whose InfraMachine
// is of another kind, from an earlier provider configuration, stays: that InfraMachine was not looked up.
func (m *machines) plan(requested engine.Deletions) machinePlan {
	var plan machinePlan
	has := make(sets.Set[string], len(m.own))
	marked := scale.RemediationFacts{Limits: scale.RemediationLimits{MaxInFlight: new(maxRemediating)}}
	for _, one := range m.own {
		infra := one.State.Infrastructure
		has.Insert(infra.Name)
		goes := requested.Has(one.UID) || !one.Deleting.IsZero() // the cache may not show it yet
		if m.infra[infra.Name] == nil && !goes {
			if infra.GroupKind() == m.gvk.GroupKind() && !one.Paused() {
				plan.Orphaned = append(plan.Orphaned, one)
			}
			continue
		}
		is := scale.Of(one.State, "")
		is.Deleting = goes
		marked.Machines = append(marked.Machines, is)
	}
	for _, v := range scale.Remediate(marked).Delete {
		at := slices.IndexFunc(m.own, func(one machine) bool { return one.Key.Name == v.Name })
		plan.Replace = append(plan.Replace, m.own[at])
	}
	for _, name := range slices.Sorted(maps.Keys(m.infra)) {
		if !has.Has(name) && m.infra[name].GetDeletionTimestamp() == nil {
			plan.Create = append(plan.Create, name)
		}
	}
	return plan
}

// observeMachines reads the Machines of the pool, and the InfraMachines if the provider creates any. Machines that cannot be read are not
// changed.
func (p *Scope) observeMachines(ctx context.Context) error {
	if !p.env.kinds.makesMachines() {
		return nil
	}
	m := &machines{}
	if err := p.observeInfraMachines(ctx, m); err != nil {
		return err
	}
	key := labelKey(contract.LabelValue(p.State.Key.Name)) // one that cannot be read reports that itself, and is one all the same
	all, err := p.env.machines.List(ctx, p.State.Key.Namespace, key, true, nil)
	if err != nil {
		return fmt.Errorf("the Machines of %s: %w", p.State.Key, err)
	}
	for _, one := range all {
		owned, err := p.owns(ctx, one.Object)
		if !owned && err == nil {
			owned, err = p.adopts(ctx, m, one.State)
		}
		if err != nil {
			return err
		}
		if owned {
			m.own = append(m.own, one)
		}
	}
	slices.SortFunc(m.own, func(a, b machine) int { return strings.Compare(a.Key.Name, b.Key.Name) })
	p.machines = m
	return nil
}

// observeInfraMachines reads the objects that the provider has created for its instances. They have the group and version of the pool's
// infrastructure object.
func (p *Scope) observeInfraMachines(ctx context.Context, m *machines) error {
	if p.machineKind == "" || p.infrastructure.Presence != external.Present {
		return nil
	}
	m.gvk = p.infrastructure.GVK.GroupVersion().WithKind(p.machineKind)
	infra, synced, err := p.env.frame.Tracker.List(ctx, m.gvk, p.State.Key.Namespace, instanceLabels(&p.State))
	if meta.IsNoMatchError(err) { // a problem that a person has to fix must not delay the rest, least of all a deletion
		p.Assert(engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, external.ReasonVersionNotServed, fmt.Sprintf(
			"%s %s says that its instances have a %s each, which is not served: install its CustomResourceDefinition, or correct "+
				"status.infrastructureMachineKind", p.infrastructure.Ref.Kind, p.infrastructure.Ref.Name, m.gvk.GroupKind())))
		p.Requeue(external.NotServedRetry)
		return nil
	}
	if err != nil || !synced {
		p.Requeue(external.UnsyncedRetry)
		return err
	}
	m.infra = infra
	return nil
}

// syncMachines creates missing Machines, labels and annotates the existing ones, and deletes those without an instance.
func (p *Scope) syncMachines(ctx context.Context) error {
	m := p.machines
	if m == nil || m.infra == nil {
		return nil
	}
	plan := m.plan(p.mem().requested)
	return errors.Join(p.createMachines(ctx, plan.Create), p.labelMachines(ctx), p.deleteOrphaned(ctx, plan.Orphaned),
		p.deleteMachines(ctx, plan.Replace, true))
}

// owns reports whether the pool controls an object, also by a UID from before a restore from a backup.
func (p *Scope) owns(ctx context.Context, obj metav1.Object) (bool, error) {
	owner := metav1.GetControllerOfNoCopy(obj)
	if owner == nil || !contract.IsOwner(*owner, p.OwnerReference()) {
		return false, nil
	}
	if owner.UID == p.State.UID {
		return true, nil
	}
	return p.IsSame(ctx)
}
