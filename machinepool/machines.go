package machinepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// machine is a Machine that represents an instance.
type machine = children.Child[contract.MachineState]

// machines are the Machines of a pool.
type machines struct {
	own []machine // sorted by name
	// infra are the InfraMachines by name, including those of others; nil while they are unknown. gvk is their kind.
	infra map[string]infraMachine
	gvk   schema.GroupVersionKind
	// instances are the keys of the instances that the pool's InfraMachines represent.
	instances sets.Set[string]
}

// infraMachine is the object of a provider for one instance. Ours: it belongs to the pool. Wanted: it needs a Machine.
type infraMachine struct{ Ours, Wanted bool }

// ledByMachines reports whether Machines represent the instances, so that the Machine controller handles their Nodes. While the
// InfraMachinePool is unread, as at the start of a process, existing Machines decide that.
func (p *Scope) ledByMachines() bool {
	if p.machineKind != "" || p.infrastructure.Usable() || !p.env.kinds.makesMachines() {
		return p.machineKind != "" && p.env.kinds.makesMachines()
	}
	return p.machines == nil || len(p.machines.own) > 0
}

// isOurs reports whether an InfraMachine belongs to the pool: it has the labels of the pool or, if it has lost them, its owner is the
// InfraMachinePool, whose deletion ends its instance too. A Machine is only created for one with the labels.
func (p *Scope) isOurs(infra *unstructured.Unstructured) bool {
	if have := infra.GetLabels(); have[contract.PoolNameLabel] != "" {
		return p.isLabelled(have)
	}
	of := p.infrastructure.Ref
	return slices.ContainsFunc(infra.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.Kind == of.Kind && ref.Name == of.Name && engine.Group(ref.APIVersion) == of.Group
	})
}

// isLabelled reports whether the labels of an object are those of the pool.
func (p *Scope) isLabelled(have map[string]string) bool {
	return labels.SelectorFromSet(instanceLabels(&p.State)).Matches(labels.Set(have))
}

// isFree reports whether a Machine has the labels of the pool, and no controller.
func (p *Scope) isFree(m *contract.Metadata) bool {
	return p.isLabelled(m.Labels) && !slices.ContainsFunc(m.OwnerReferences, engine.IsController)
}

// adopts reports whether the pool adopts a Machine: it has the labels of the pool and no controller, and represents an InfraMachine of the
// pool. A restore from a backup without owner references leaves such Machines. Rule: Cluster API's MachinePool controller, which finds its
// Machines by their labels.
func (p *Scope) adopts(ctx context.Context, m *machines, other *contract.MachineState) (bool, error) {
	ref := other.Infrastructure
	if !m.infra[ref.Name].Ours || ref.GroupKind() != m.gvk.GroupKind() || !p.isFree(&other.Metadata) {
		return false, nil
	}
	return p.IsSame(ctx) // an earlier pool must not adopt Machines from its stale caches
}

// plan decides about Machines; requested are the deletions already requested. create are the InfraMachines that get a Machine, orphaned
// the Machines without an InfraMachine, and replace the unhealthy ones, in the order of scale.Remediate. Each InfraMachine has one
// Machine, which is found by its reference, whatever its name. A Machine is deleted when its InfraMachine is gone and, one at a time, when
// a health check requests its replacement, unless it is paused. When a pool shrinks, the provider chooses the instances and deletes their
// Machines. A Machine whose InfraMachine is of another kind, from an earlier provider configuration, is retained: that InfraMachine was
// not looked up.
func (m *machines) plan(requested engine.Deletions) (create []string, orphaned, replace []machine) {
	has := make(sets.Set[string], len(m.own))
	marked := scale.RemediationFacts{Limits: scale.RemediationLimits{MaxInFlight: new(1)}}
	for _, one := range m.own {
		ref := one.State.Infrastructure
		has.Insert(ref.Name)
		infra, exists := m.infra[ref.Name]
		going := requested.Has(one.UID) || !one.Deleting.IsZero() // the cache may not show it yet
		switch {
		case going || infra.Ours:
			is := scale.Of(one.State, "")
			is.Deleting = going
			marked.Machines = append(marked.Machines, is)
		case !exists && ref.GroupKind() == m.gvk.GroupKind() && !one.Paused():
			orphaned = append(orphaned, one)
		}
	}
	for _, v := range scale.Remediate(marked).Delete {
		at := slices.IndexFunc(m.own, func(one machine) bool { return one.Key.Name == v.Name })
		replace = append(replace, m.own[at])
	}
	for _, name := range slices.Sorted(maps.Keys(m.infra)) {
		if m.infra[name].Wanted && !has.Has(name) {
			create = append(create, name)
		}
	}
	return create, orphaned, replace
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
	key := labelKey(contract.LabelValue(p.State.Key.Name)) // a Machine that cannot be read counts; its own pass reports the error
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
	all, synced, err := p.env.frame.Tracker.List(ctx, m.gvk, p.State.Key.Namespace)
	if meta.IsNoMatchError(err) { // a problem for a person must not delay the rest, least of all a deletion
		p.Assert(engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, external.ReasonVersionNotServed, fmt.Sprintf(
			"%s %s reports that its instances have a %s each, which is not served: install its CustomResourceDefinition, or correct "+
				"status.infrastructureMachineKind", p.infrastructure.Ref.Kind, p.infrastructure.Ref.Name, m.gvk.GroupKind())))
		p.Requeue(external.NotServedRetry)
		return nil
	}
	if err != nil || !synced {
		p.Requeue(external.UnsyncedRetry)
		return err
	}
	p.readInfraMachines(all, m)
	return nil
}

// readInfraMachines finds the pool's InfraMachines in a namespace, and the instances that they represent.
func (p *Scope) readInfraMachines(all map[string]*unstructured.Unstructured, m *machines) {
	m.infra, m.instances = make(map[string]infraMachine, len(all)), sets.New[string]()
	for name, infra := range all {
		is := infraMachine{Ours: p.isOurs(infra), Wanted: p.isLabelled(infra.GetLabels()) && infra.GetDeletionTimestamp() == nil}
		if m.infra[name] = is; is.Ours {
			id, _, _ := unstructured.NestedString(infra.Object, "spec", "providerID")
			m.instances.Insert(p.env.options.Matching.Key(id))
		}
	}
	m.instances.Delete("") // an empty ID identifies no instance
}

// syncMachines creates missing Machines, labels and annotates the existing ones, and deletes those without an instance.
func (p *Scope) syncMachines(ctx context.Context) error {
	m := p.machines
	if m == nil || m.infra == nil {
		return nil
	}
	create, orphaned, replace := m.plan(p.mem().requested)
	return errors.Join(p.createMachines(ctx, create), p.labelMachines(ctx), p.deleteOrphaned(ctx, orphaned),
		p.deleteMachines(ctx, replace, true))
}

// owns reports whether the pool controls an object, even by a UID from before a restore from a backup.
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

// createMachines creates Machines. If the cache does not have a Machine yet, the API server reports that it exists.
func (p *Scope) createMachines(ctx context.Context, missing []string) error {
	created, err := each(p, missing, func(name string) error { return p.createMachine(ctx, name) })
	if len(created) > 0 {
		p.event(EventMachinesCreated, "Created %s %s", p.env.kinds.Machine.GVK.Kind, engine.Named(created))
	}
	if err != nil { // nothing else reports that an instance waits for its Machine
		waiting := slices.DeleteFunc(slices.Clone(missing), func(name string) bool { return slices.Contains(created, name) })
		why := engine.Indented(engine.Bounded(err.Error(), engine.MaxNoteLength))
		p.problems.add(contract.ReasonNotReady, "Without a Machine", waiting, ":"+why)
	}
	return err
}

// createMachine creates the Machine of an InfraMachine.
func (p *Scope) createMachine(ctx context.Context, name string) error {
	labels, annotations := p.machineMetadata()
	machine, err := p.env.kinds.NewMachine(&p.State, contract.MachineSeed{
		Seed: contract.Seed{
			Key: p.key(name), Labels: labels, Annotations: annotations, Owners: []metav1.OwnerReference{p.OwnerReference()},
		},
		Infrastructure:        contract.Ref{Group: p.machines.gvk.Group, Kind: p.machines.gvk.Kind, Name: name},
		InfrastructureVersion: p.machines.gvk.Version,
	})
	if err == nil {
		err = p.env.frame.Ports.Client.Create(ctx, machine)
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return p.alreadyThere(ctx, name)
	case err != nil:
		return fmt.Errorf("create %s %s: %w", p.env.kinds.Machine.GVK.Kind, name, err)
	}
	return nil
}

// errForeignMachine means that the Machine with the name of an InfraMachine has another owner.
var errForeignMachine = errors.New("it exists and is not one")

// alreadyThere distinguishes a Machine that is missing in the cache, engine.ErrStale, from one of the same name with another owner. It
// restores the labels of a Machine, by which it is found.
func (p *Scope) alreadyThere(ctx context.Context, name string) error {
	have, owned := p.machineNamed(name), false
	err := p.env.machines.Existing(ctx, have, p.env.kinds.Machine.GVK.Kind, p.key(name))
	if err == nil {
		owned, err = p.owns(ctx, have)
	}
	switch {
	case err != nil:
		return err
	case owned:
		return cmp.Or(p.giveMetadata(ctx, have), engine.ErrStale)
	}
	return fmt.Errorf("create Machine %s: %w of MachinePool %s: if it represents the instance, remove its controller and give it the "+
		"labels of the pool; otherwise delete it, or have the provider name the InfraMachine otherwise",
		p.key(name), errForeignMachine, p.State.Key.Name)
}

// machineMetadata returns the labels and annotations of the pool's Machines.
func (p *Scope) machineMetadata() (labels, annotations map[string]string) {
	labels = map[string]string{}
	maps.Copy(labels, p.State.Template.Labels)
	maps.Copy(labels, instanceLabels(&p.State))
	return labels, maps.Clone(p.State.Template.Annotations)
}

// labelMachines adds missing labels and annotations of the template to Machines, adopts those without a controller, and corrects owner
// references with the UID that the pool had before a restore, because the garbage collector would delete these Machines. It removes
// nothing.
func (p *Scope) labelMachines(ctx context.Context) error {
	_, err := each(p, p.machines.own, func(m machine) error {
		if !m.Deleting.IsZero() || p.env.frame.Writer.Behind(m.Object) {
			return nil
		}
		return p.giveMetadata(ctx, m.Object)
	})
	return err
}

// giveMetadata writes missing metadata to a Machine of the pool.
func (p *Scope) giveMetadata(ctx context.Context, have contract.Object) error {
	u, me := contract.MachineUpdate{}, p.OwnerReference()
	labels, annotations := p.machineMetadata()
	now := &contract.Metadata{Labels: have.GetLabels(), Annotations: have.GetAnnotations()}
	u.MetadataUpdate = children.Given{}.Changes(now, labels, annotations)
	if metav1.GetControllerOfNoCopy(have) == nil || contract.RestoredOwner(have.GetOwnerReferences(), me) {
		u.OwnerReferences = contract.SetTo(contract.WithOwner(have.GetOwnerReferences(), me))
	}
	_, err := engine.Write(ctx, p.env.frame.Writer, p.env.kinds.Machine, have, u)
	if external.IsGone(err) {
		return nil
	}
	return err
}

// machineNamed returns an empty Machine with a name, for a write or a deletion.
func (p *Scope) machineNamed(name string) client.Object {
	obj := engine.NewObject(p.env.kinds.Machine)
	obj.SetNamespace(p.State.Key.Namespace)
	obj.SetName(name)
	return obj
}

// key returns the key of an object in the namespace of the pool.
func (p *Scope) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: p.State.Key.Namespace, Name: name}
}

// deleteAllMachines deletes the Machines of single instances, whose controller drains their Nodes and waits for their hooks.
func (p *Scope) deleteAllMachines(ctx context.Context) (bool, error) {
	if p.machines == nil {
		return true, nil
	}
	left, unsure := p.machines.own, false
	if len(left) == 0 {
		var err error
		if left, unsure, err = p.liveMachines(ctx); err != nil || (len(left) == 0 && !unsure) {
			return err == nil, err
		}
		p.Requeue(claimedRetry) // a safety net: their events wake the pool that controls them
	}
	p.Wait(ReasonWaitingForMachineDeletion, "Waiting for Machines to be deleted: "+
		engine.Named(mapped(left, func(m machine) string { return m.Key.Name })))
	if unsure {
		p.Wait(ReasonWaitingForMachineDeletion, "There are Machines with the labels of the pool, and its InfraMachines are not known yet")
		p.Requeue(external.UnsyncedRetry)
	}
	return false, p.deleteMachines(ctx, left, false)
}

// liveMachines returns the Machines in the API server, before the instances are deleted: a cache may lack new ones, and does not find those
// whose pool labels were removed. unsure: there may be others that the pool adopts.
func (p *Scope) liveMachines(ctx context.Context) (left []machine, unsure bool, err error) {
	if !p.instancesStay() || (p.infrastructure.Usable() && p.machineKind == "") {
		return nil, false, nil // it is too late for them, or there are none
	}
	var unknown error
	err = p.env.machines.EachLive(ctx, p.State.Key.Namespace, func(m *metav1.PartialObjectMetadata) {
		owned, err := p.owns(ctx, m)
		unknown = cmp.Or(unknown, err)
		state := &contract.MachineState{}
		state.From(m)
		unsure = unsure || (p.machines.infra == nil && p.isFree(&state.Metadata))
		if owned {
			obj := p.machineNamed(m.Name) // controller-runtime 0.25 returns an error for a deletion of metadata
			obj.SetUID(m.UID)
			left = append(left, machine{Object: obj, State: state, Metadata: &state.Metadata})
		}
	})
	return left, unsure && len(left) == 0, cmp.Or(err, unknown)
}

// deleteOrphaned deletes Machines whose InfraMachine is gone, as the API server confirms.
func (p *Scope) deleteOrphaned(ctx context.Context, orphaned []machine) error {
	gone, err := each(p, orphaned, func(m machine) error {
		confirmed, err := p.ConfirmAbsent(ctx, p.machines.gvk, p.key(m.State.Infrastructure.Name))
		if err == nil && !confirmed {
			err = engine.ErrStale
		}
		return err
	})
	return errors.Join(err, p.deleteMachines(ctx, gone, false))
}

// deleteMachines requests the deletion of Machines, by UID, unless it was already requested. The Machine controller drains their Nodes and
// waits for their hooks. asRead: only in the version that was read, because an unhealthy one may have recovered.
func (p *Scope) deleteMachines(ctx context.Context, going []machine, asRead bool) error {
	requested, kind := &p.mem().requested, p.env.kinds.Machine.GVK.Kind
	due := slices.DeleteFunc(slices.Clone(going), func(m machine) bool {
		requested.Observe(m.UID, m.ResourceVersion, !m.Deleting.IsZero())
		return requested.Has(m.UID) || !m.Deleting.IsZero()
	})
	deleted, err := each(p, due, func(m machine) error {
		return deleteOne(ctx, p.env.frame.Ports.Client, kind+" "+m.Key.String(), m.Object, asRead)
	})
	for _, m := range deleted {
		requested.Add(m.UID, m.ResourceVersion, p.Now)
		p.event(EventMachineDeleted, "Deleted %s %s", kind, m.Key.Name)
	}
	return err
}
