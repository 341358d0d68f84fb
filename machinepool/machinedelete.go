package machinepool

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
)

// deleteAllMachines deletes the Machines of single instances, whose controller drains their Nodes and waits for their hooks.
func (p *Scope) deleteAllMachines(ctx context.Context) (bool, error) {
	if p.machines == nil {
		return true, nil
	}
	if len(p.machines.states) == 0 {
		return p.confirmNoMachines(ctx)
	}
	names := make([]string, 0, len(p.machines.states))
	for _, m := range p.machines.states {
		names = append(names, m.Key.Name)
	}
	p.Wait(ReasonWaitingForMachineDeletion, "Waiting for Machines to be deleted: "+pass.Named(names))
	return false, p.deleteMachines(ctx, p.machines.states, false)
}

// confirmNoMachines asks the API server, before the instances are deleted: a cache may not show new Machines yet, and does not find those
// whose pool labels were removed. They are deleted too.
func (p *Scope) confirmNoMachines(ctx context.Context) (bool, error) {
	there := p.infrastructure.Presence == external.Present || p.infrastructure.Presence == external.Unread
	if !there || p.isGoing(p.infrastructure) || (p.infraRead && p.machineKind == "") {
		return true, nil // it is too late for them, or there are none
	}
	list, gvk := &metav1.PartialObjectMetadataList{}, p.env.kinds.Machine.GVK
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := p.env.frame.Ports.APIReader.List(ctx, list, client.InNamespace(p.State.Key.Namespace)); err != nil {
		return false, fmt.Errorf("list Machines of %s: %w", p.State.Key, err)
	}
	var left []*contract.MachineState
	for i := range list.Items {
		owned, err := p.owns(ctx, &list.Items[i])
		if err != nil {
			return false, err
		}
		if owned {
			left = append(left, &contract.MachineState{Metadata: metadataOf(&list.Items[i])})
		}
	}
	if len(left) == 0 {
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
	asked := p.mem().asked
	going = slices.DeleteFunc(slices.Clone(going), func(m *contract.MachineState) bool {
		_, already := asked[m.UID]
		return already || !m.Deleting.IsZero()
	})
	done := make([]bool, len(going))
	err := p.each(len(going), func(i int) error {
		only := client.Preconditions{UID: &going[i].UID}
		if asRead {
			only.ResourceVersion = new(p.machines.objects[going[i].UID].GetResourceVersion())
		}
		obj := pass.NewObject(p.env.kinds.Machine)
		obj.SetNamespace(going[i].Key.Namespace)
		obj.SetName(going[i].Key.Name)
		err := p.env.frame.Ports.Client.Delete(ctx, obj, only)
		if apierrors.IsConflict(err) {
			return errAgain
		}
		if err != nil && !external.SaysGone(err) {
			return fmt.Errorf("delete Machine %s: %w", going[i].Key, err)
		}
		done[i] = true
		return nil
	})
	for i, m := range going {
		if done[i] {
			asked[m.UID] = struct{}{}
			p.Eventf(corev1.EventTypeNormal, EventMachineDeleted, pass.ActionReconcile, "Deleted Machine %s", m.Key.Name)
		}
	}
	return err
}
