package machinepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// createMachines creates Machines. One that the cache does not show yet is there already, which the API server answers.
func (p *Scope) createMachines(ctx context.Context, missing []string) error {
	created, err := each(p, missing, func(name string) error {
		err := p.createMachine(ctx, name)
		if errors.Is(err, errForeignMachine) {
			p.machines.foreign = append(p.machines.foreign, name)
		}
		return err
	})
	if len(created) > 0 {
		p.tell(EventMachinesCreated, "Created %s %s", p.env.kinds.Machine.GVK.Kind, engine.Named(created))
	}
	return err
}

// createMachine creates the Machine of an InfraMachine.
func (p *Scope) createMachine(ctx context.Context, name string) error {
	labels, annotations := p.machineMetadata()
	seed := contract.MachineSeed{
		Key: types.NamespacedName{Namespace: p.State.Key.Namespace, Name: name}, Labels: labels, Annotations: annotations,
		Owners:                []metav1.OwnerReference{p.OwnerReference()},
		Infrastructure:        contract.Ref{Group: p.machines.gvk.Group, Kind: p.machines.gvk.Kind, Name: name},
		InfrastructureVersion: p.machines.gvk.Version,
	}
	machine, err := p.env.kinds.NewMachine(Seed{seed, p.State.ClusterName, p.State.Template.Version})
	obj, ok := machine.(client.Object)
	if err != nil || !ok {
		return errors.Join(err, fmt.Errorf("make %s %s: got %T", p.env.kinds.Machine.GVK.Kind, name, machine))
	}
	err = p.env.frame.Ports.Client.Create(ctx, obj)
	switch {
	case apierrors.IsAlreadyExists(err):
		return p.alreadyThere(ctx, name)
	case err != nil:
		return fmt.Errorf("create %s %s: %w", p.env.kinds.Machine.GVK.Kind, name, err)
	}
	return nil
}

// errForeignMachine says that a Machine of the name of an InfraMachine has another owner.
var errForeignMachine = errors.New("it exists and is not one")

// foreignAdvice is what a person can do about it. A Machine that is deleted may take an instance with it.
const foreignAdvice = "if it stands for the instance, remove its controller and give it the labels of the pool; otherwise delete it, " +
	"or have the provider name the InfraMachine otherwise"

// alreadyThere distinguishes a Machine that the cache does not show yet, errAgain, from one of the same name with another owner. A Machine
// whose labels were removed, by which it is found, gets them again.
func (p *Scope) alreadyThere(ctx context.Context, name string) error {
	have := p.machineNamed(types.NamespacedName{Namespace: p.State.Key.Namespace, Name: name})
	err := p.env.frame.Ports.APIReader.Get(ctx, client.ObjectKeyFromObject(have), have)
	switch {
	case external.SaysGone(err):
		return errAgain
	case err != nil:
		return err
	}
	owned, err := p.owns(ctx, have)
	switch {
	case err != nil:
		return err
	case !owned:
		return fmt.Errorf("create Machine %s/%s: %w of MachinePool %s: %s", p.State.Key.Namespace, name, errForeignMachine, p.State.Key.Name,
			foreignAdvice)
	}
	return cmp.Or(p.giveMetadata(ctx, have), errAgain)
}

// machineMetadata are the labels and annotations of the pool's Machines.
func (p *Scope) machineMetadata() (labels, annotations map[string]string) {
	labels = map[string]string{}
	maps.Copy(labels, p.State.Template.Labels)
	maps.Copy(labels, instanceLabels(&p.State))
	return labels, maps.Clone(p.State.Template.Annotations)
}

// labelMachines adds missing labels and annotations of the template to Machines, adopts those without a controller, and corrects owner
// references with the UID that the pool had before a restore: the garbage collector would delete these Machines. It removes nothing.
func (p *Scope) labelMachines(ctx context.Context) error {
	_, err := each(p, p.machines.own, func(m machine) error {
		if !m.Deleting.IsZero() || p.env.frame.Writer.Behind(m.Object) {
			return nil
		}
		return p.giveMetadata(ctx, m.Object)
	})
	return err
}

// giveMetadata writes what a Machine of the pool lacks.
func (p *Scope) giveMetadata(ctx context.Context, have contract.Object) error {
	u, me := contract.MachineUpdate{}, p.OwnerReference()
	labels, annotations := p.machineMetadata()
	now := &contract.Metadata{Labels: have.GetLabels(), Annotations: have.GetAnnotations()}
	u.MetadataUpdate = children.Given{}.Changes(now, labels, annotations)
	if metav1.GetControllerOfNoCopy(have) == nil || contract.RestoredOwner(have.GetOwnerReferences(), me) {
		u.OwnerReferences = contract.SetTo(contract.WithOwner(have.GetOwnerReferences(), me))
	}
	_, err := engine.Write(ctx, p.env.frame.Writer, p.env.kinds.Machine, have, u)
	if external.SaysGone(err) {
		return nil
	}
	return err
}

// machineNamed returns an empty Machine to write or delete one of its name.
func (p *Scope) machineNamed(key types.NamespacedName) client.Object {
	obj := engine.NewObject(p.env.kinds.Machine)
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	return obj
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

// liveMachines returns the Machines that the API server has, before the instances are deleted: a cache may not show new ones yet, and does
// not find those whose pool labels were removed. unsure: there may be others that the pool adopts.
func (p *Scope) liveMachines(ctx context.Context) (left []machine, unsure bool, err error) {
	there := p.infrastructure.Presence == external.Present || p.infrastructure.Presence == external.Unread
	if !there || p.isGoing(p.infrastructure) || (p.infrastructure.Usable() && p.machineKind == "") {
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
			left = append(left, machine{State: state, Metadata: &state.Metadata})
		}
	})
	return left, unsure && len(left) == 0, cmp.Or(err, unknown)
}

// deleteOrphaned deletes Machines whose InfraMachine is gone, as the API server confirms. An InfraMachine that only lacks the labels by
// which a pool lists it is not gone.
func (p *Scope) deleteOrphaned(ctx context.Context, orphaned []machine) error {
	infra := func(m machine) types.NamespacedName {
		return types.NamespacedName{Namespace: m.Key.Namespace, Name: m.State.Infrastructure.Name}
	}
	absent := slices.DeleteFunc(orphaned, func(m machine) bool {
		unlabelled := &unstructured.Unstructured{}
		unlabelled.SetGroupVersionKind(p.machines.gvk)
		return p.env.frame.Ports.Cache.Get(ctx, infra(m), unlabelled, client.UnsafeDisableDeepCopy) == nil
	})
	gone, err := each(p, absent, func(m machine) error {
		confirmed, err := p.ConfirmAbsent(ctx, p.machines.gvk, infra(m))
		if err == nil && !confirmed {
			err = errAgain
		}
		return err
	})
	return errors.Join(err, p.deleteMachines(ctx, gone, false))
}

// deleteMachines requests the deletion of Machines, by UID. The Machine controller drains their Nodes and waits for their hooks. asRead:
// only while they are unchanged since they were read, because an unhealthy one may have recovered.
func (p *Scope) deleteMachines(ctx context.Context, going []machine, asRead bool) error {
	requested := &p.mem().requested
	going = slices.DeleteFunc(slices.Clone(going), func(m machine) bool {
		requested.Observe(m.UID, m.ResourceVersion, !m.Deleting.IsZero())
		return requested.Has(m.UID) || !m.Deleting.IsZero()
	})
	deleted, err := each(p, going, func(m machine) error {
		only := client.Preconditions{UID: &m.UID}
		if asRead {
			only.ResourceVersion = &m.ResourceVersion
		}
		return deleteObject(ctx, p.env.frame.Ports.Client, p.env.kinds.Machine.GVK.Kind+" "+m.Key.String(), p.machineNamed(m.Key), only)
	})
	for _, m := range deleted {
		requested.Add(m.UID, m.ResourceVersion, p.Now)
		p.tell(EventMachineDeleted, "Deleted %s %s", p.env.kinds.Machine.GVK.Kind, m.Key.Name)
	}
	return err
}
