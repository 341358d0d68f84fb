package machinepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// madeGrace is how long the pool does not create a Machine again that the cache does not show. It may have been deleted meanwhile.
const madeGrace = 30 * time.Second

// versionOf is the version of the instance of an InfraMachine: that of its kubelet, because an instance can be older than its Machine, or
// of the template while its Node is not known.
func (p *Scope) versionOf(infra string) string {
	if layout := contract.InfraMachine(p.infrastructure.Contract); layout != nil {
		id, _, err := layout.ProviderID.Get(p.machines.infra[infra].Object)
		for _, node := range p.match.Nodes {
			if err == nil && p.env.options.Matching.Same(id, node.Spec.ProviderID) {
				return cmp.Or(node.Status.NodeInfo.KubeletVersion, p.State.Template.Version)
			}
		}
	}
	return p.State.Template.Version
}

// createMachines creates Machines, except those that were created a moment ago.
func (p *Scope) createMachines(ctx context.Context, missing []string) error {
	made := p.mem().made
	maps.DeleteFunc(made, func(_ string, at time.Time) bool { return reached(at, madeGrace, p.Now) })
	names := slices.DeleteFunc(slices.Clone(missing), func(name string) bool { return !made[name].IsZero() })
	if len(names) < len(missing) {
		p.Requeue(madeGrace)
	}
	errs := each(p, names, func(name string) error { return p.createMachine(ctx, name) })
	var created []string
	for i, name := range names {
		switch {
		case errs[i] == nil:
			created = append(created, name)
			made[name] = p.Now
		case errors.Is(errs[i], errThere):
			made[name], errs[i] = p.Now, nil
		case errors.Is(errs[i], errForeignMachine):
			p.machines.foreign = append(p.machines.foreign, name)
		}
	}
	if len(created) > 0 {
		p.tell(EventMachinesCreated, "Created %s %s", p.env.kinds.Machine.GVK.Kind, engine.Named(created))
	}
	return p.joinErrors(errs)
}

// createMachine creates the Machine of an InfraMachine. The error is errThere when it exists.
func (p *Scope) createMachine(ctx context.Context, name string) error {
	labels, annotations := p.machineMetadata()
	machine, err := p.env.kinds.NewMachine(Seed{
		Key: types.NamespacedName{Namespace: p.State.Key.Namespace, Name: name}, Labels: labels, Annotations: annotations,
		Owner: p.OwnerReference(), ClusterName: p.State.ClusterName, Version: p.versionOf(name),
		Infrastructure:        contract.Ref{Group: p.machines.gvk.Group, Kind: p.machines.gvk.Kind, Name: name},
		InfrastructureVersion: p.machines.gvk.Version,
	})
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

var (
	// errThere says that a Machine which the cache does not show exists.
	errThere = errors.New("it exists")
	// errForeignMachine says that a Machine of the name of an InfraMachine has another owner.
	errForeignMachine = errors.New("it exists and is not one")
)

// foreignAdvice is what a person can do about it. A Machine that is deleted may take an instance with it.
const foreignAdvice = "if it stands for the instance, remove its controller and give it the labels of the pool; otherwise delete it, " +
	"or have the provider name the InfraMachine otherwise"

// alreadyThere distinguishes a Machine that the cache does not show yet, errThere, from one of the same name with another owner. A Machine
// whose labels were removed, by which it is found, gets them again.
func (p *Scope) alreadyThere(ctx context.Context, name string) error {
	have := &metav1.PartialObjectMetadata{}
	have.SetGroupVersionKind(p.env.kinds.Machine.GVK)
	err := p.env.frame.Ports.APIReader.Get(ctx, types.NamespacedName{Namespace: p.State.Key.Namespace, Name: name}, have)
	switch {
	case external.SaysGone(err):
		return errAgain
	case err != nil:
		return err
	}
	owned, err := p.owns(ctx, have)
	switch labels, annotations := p.machineMetadata(); {
	case err != nil:
		return err
	case !owned:
		return fmt.Errorf("create Machine %s/%s: %w of MachinePool %s: %s", p.State.Key.Namespace, name, errForeignMachine, p.State.Key.Name,
			foreignAdvice)
	case lacks(have.Labels, labels):
		err = p.giveMetadata(ctx, have, labels, annotations)
	}
	return cmp.Or(err, errThere)
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
	labels, annotations := p.machineMetadata()
	me := p.OwnerReference()
	var due []client.Object
	for _, m := range p.machines.states {
		obj := p.machines.objects[m.UID]
		differs := lacks(m.Labels, labels) || lacks(m.Annotations, annotations) || disowned(obj, me)
		if m.Deleting.IsZero() && differs && !p.env.frame.Writer.Behind(obj) {
			due = append(due, obj)
		}
	}
	return p.joinErrors(each(p, due, func(obj client.Object) error { return p.giveMetadata(ctx, obj, labels, annotations) }))
}

func (p *Scope) giveMetadata(ctx context.Context, have client.Object, labels, annotations map[string]string) error {
	key, me := client.ObjectKeyFromObject(have), p.OwnerReference()
	metadata := map[string]any{"uid": string(have.GetUID()), "labels": labels}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if disowned(have, me) {
		metadata["ownerReferences"], metadata["resourceVersion"] = contract.WithOwner(have.GetOwnerReferences(), me), have.GetResourceVersion()
	}
	err := p.env.frame.Writer.Patch(ctx, p.machineNamed(key), map[string]any{"metadata": metadata}, false)
	if err != nil && !external.SaysGone(err) {
		return fmt.Errorf("write %s %s: %w", p.env.kinds.Machine.GVK.Kind, key, err)
	}
	return nil
}

// disowned reports whether a Machine of the pool does not name the pool that there is now as its controller.
func disowned(machine client.Object, pool metav1.OwnerReference) bool {
	return metav1.GetControllerOfNoCopy(machine) == nil || contract.RestoredOwner(machine.GetOwnerReferences(), pool)
}

// machineNamed returns an empty Machine to write or delete one of its name.
func (p *Scope) machineNamed(key types.NamespacedName) client.Object {
	obj := engine.NewObject(p.env.kinds.Machine)
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	return obj
}

func lacks(have, want map[string]string) bool {
	for key, value := range want {
		if got, found := have[key]; !found || got != value {
			return true
		}
	}
	return false
}

// deleteAllMachines deletes the Machines of single instances, whose controller drains their Nodes and waits for their hooks.
func (p *Scope) deleteAllMachines(ctx context.Context) (bool, error) {
	if p.machines == nil {
		return true, nil
	}
	if len(p.machines.states) == 0 {
		return p.confirmNoMachines(ctx)
	}
	names := mapped(p.machines.states, func(m *contract.MachineState) string { return m.Key.Name })
	p.Wait(ReasonWaitingForMachineDeletion, "Waiting for Machines to be deleted: "+engine.Named(names))
	return false, p.deleteMachines(ctx, p.machines.states, false)
}

// confirmNoMachines asks the API server, before the instances are deleted: a cache may not show new Machines yet, and does not find those
// whose pool labels were removed. They are deleted too.
func (p *Scope) confirmNoMachines(ctx context.Context) (bool, error) {
	there := p.infrastructure.Presence == external.Present || p.infrastructure.Presence == external.Unread
	if !there || p.isGoing(p.infrastructure) || (p.infraRead && p.machineKind == "") {
		return true, nil // it is too late for them, or there are none
	}
	var left []*contract.MachineState
	var unknown error
	unsure, labels := false, instanceLabels(&p.State)
	err := p.env.machines.EachLive(ctx, p.State.Key.Namespace, func(m *metav1.PartialObjectMetadata) {
		owned, err := p.owns(ctx, m)
		unknown = cmp.Or(unknown, err)
		unsure = unsure || (!p.machines.known && metav1.GetControllerOfNoCopy(m) == nil && !lacks(m.Labels, labels))
		if owned {
			state := &contract.MachineState{}
			state.From(m)
			left = append(left, state)
		}
	})
	switch err := cmp.Or(err, unknown); {
	case err != nil:
		return false, err
	case len(left) > 0:
	case unsure:
		p.Wait(ReasonWaitingForMachineDeletion, "There are Machines with the labels of the pool, and its InfraMachines are not known yet")
		p.Requeue(external.UnsyncedRetry)
		return false, nil
	default:
		return true, nil
	}
	p.Wait(ReasonWaitingForMachineDeletion, fmt.Sprintf("Waiting for %d Machines to be deleted", len(left)))
	p.Requeue(claimedRetry) // a safety net: their events wake the pool that controls them
	return false, p.deleteMachines(ctx, left, false)
}

// deleteOrphaned deletes Machines whose InfraMachine is gone, as the API server confirms. An InfraMachine that only lacks the labels by
// which a pool lists it is not gone.
func (p *Scope) deleteOrphaned(ctx context.Context, orphaned []*contract.MachineState) error {
	var gone []*contract.MachineState
	var failed error
	for _, m := range orphaned {
		key := types.NamespacedName{Namespace: m.Key.Namespace, Name: m.Infrastructure.Name}
		unlabelled := &unstructured.Unstructured{}
		unlabelled.SetGroupVersionKind(p.machines.gvk)
		if err := p.env.frame.Ports.Cache.Get(ctx, key, unlabelled, client.UnsafeDisableDeepCopy); err == nil {
			continue
		}
		confirmed, err := external.ConfirmAbsent(ctx, p.env.frame.Ports.APIReader, p.machines.gvk, key)
		switch {
		case err != nil:
			failed = errors.Join(failed, err)
		case confirmed:
			gone = append(gone, m)
		default:
			p.Requeue(external.AbsenceRetry)
		}
	}
	return errors.Join(failed, p.deleteMachines(ctx, gone, false))
}

// deleteMachines requests the deletion of Machines, by UID. The Machine controller drains their Nodes and waits for their hooks. asRead:
// only while they are unchanged since they were read, because an unhealthy one may have recovered.
func (p *Scope) deleteMachines(ctx context.Context, going []*contract.MachineState, asRead bool) error {
	requested := &p.mem().requested
	going = slices.DeleteFunc(slices.Clone(going), func(m *contract.MachineState) bool {
		requested.Observe(m.UID, m.ResourceVersion, !m.Deleting.IsZero())
		return requested.Has(m.UID) || !m.Deleting.IsZero()
	})
	errs := each(p, going, func(m *contract.MachineState) error {
		only := client.Preconditions{UID: &m.UID}
		if asRead {
			only.ResourceVersion = new(p.machines.objects[m.UID].GetResourceVersion())
		}
		return deleteObject(ctx, p.env.frame.Ports.Client, p.env.kinds.Machine.GVK.Kind+" "+m.Key.String(), p.machineNamed(m.Key), only)
	})
	for i, m := range going {
		if errs[i] == nil {
			requested.Add(m.UID, m.ResourceVersion, p.Now)
			p.tell(EventMachineDeleted, "Deleted %s %s", p.env.kinds.Machine.GVK.Kind, m.Key.Name)
		}
	}
	return p.joinErrors(errs)
}
