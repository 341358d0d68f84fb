package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// Names of the invariants about MachinePools, which are checked in histories whose root is one.
const (
	PoolReplicasStay = "the replicas of a MachinePool are what users and providers write"
	PoolOwnNodes     = "a MachinePool writes no Node that none of its instances has"
	PoolKeepsNodes   = "a MachinePool deletes no Node whose instance is there"
	PoolDrainsFirst  = "an instance of a MachinePool goes only after its drain, the limit of it, or an excuse of the policy"
)

// poolInvariants are those of the reconciler of pools.
func poolInvariants() []Invariant {
	return []Invariant{
		{Name: PoolReplicasStay, AfterWrite: ofPool(poolReplicasStay)}, {Name: PoolOwnNodes, AfterWrite: ofPool(poolOwnNodes)},
		{Name: PoolKeepsNodes, AfterWrite: ofPool(poolKeepsNodes)}, {Name: PoolDrainsFirst, AfterWrite: ofPool(poolDrainsFirst)},
	}
}

// ofPool checks what a process writes in a pass over a pool.
func ofPool(check func(*World, Write) error) func(*World, Write) error {
	return func(w *World, e Write) error {
		if w.pool == nil || w.acting == nil || w.acting.controller != "machinepool" || e.Before == nil {
			return nil
		}
		return check(w, e)
	}
}

// poolReplicasStay: a pool never scales by itself, and so not to zero.
func poolReplicasStay(_ *World, e Write) error {
	if e.After.GetKind() != poolKind || e.Removed {
		return nil
	}
	if before, after := textAt(e.Before, "spec", "replicas"), textAt(e.After, "spec", "replicas"); before != after {
		return fmt.Errorf("they were %s and are %s", before, after)
	}
	return nil
}

func poolOwnNodes(w *World, e Write) error {
	if e.After.GetKind() == "Node" && w.pool.instanceOf(e.Before) == nil {
		return fmt.Errorf("the Node %s", e.After.GetName())
	}
	return nil
}

// goes reports whether a write is or begins a deletion.
func goes(e Write) bool {
	return e.Before.GetDeletionTimestamp() == nil && (e.Removed || e.After.GetDeletionTimestamp() != nil)
}

// poolKeepsNodes holds until the pool is being deleted. It allows for a list in another form when a Node is not ready, which the pool holds
// for some minutes only, or a person has marked it as one that leaves, and for what a restored backup says about the instances.
func poolKeepsNodes(w *World, e Write) error {
	if e.After.GetKind() != "Node" || !goes(e) || w.pool.owner.leaves() || w.backups.restored {
		return nil
	}
	i := w.pool.instanceOf(e.Before)
	respelled := w.seen[faultPrefix+string(PoolRespells)] > 0
	if i == nil || i.ended || respelled && (isMarked(e.Before) || readyOf(typed[corev1.Node](e.Before)).Status != corev1.ConditionTrue) {
		return nil
	}
	return fmt.Errorf("the Node %s goes, and its instance %s stays", e.After.GetName(), i.id)
}

// poolDrainsFirst is about Nodes that the process that acts knows: when it says that a Node is drained, deletes one whose kubelet answers,
// or has the instances deleted.
func poolDrainsFirst(w *World, e Write) error {
	if w.apps == nil {
		return nil
	}
	switch e.After.GetKind() {
	case "Node":
		node := w.acting.nodes(w.clusters[0]).ByName(e.Before.GetName())
		leaves := goes(e) && !w.pool.owner.leaves() && node != nil && readyOf(node).Status == corev1.ConditionTrue
		if leaves || !goes(e) && saysDrained(e.After) && !saysDrained(e.Before) {
			return w.poolDrained(e.Before)
		}
	case poolInfraKind:
		return w.poolEnds(e)
	}
	return nil
}

func saysDrained(node *unstructured.Unstructured) bool {
	return node.GetAnnotations()[contract.DrainedAnnotation] == string(node.GetUID())
}

// poolEnds is about the deletion of the infrastructure of a pool, which ends all instances. Of a Node that has registered again the pool
// knows nothing while no list names its instance.
func (w *World) poolEnds(e Write) error {
	if !goes(e) {
		return nil
	}
	for _, i := range w.pool.live() {
		node := w.object("Node", "", i.name)
		if node != nil && i.due.Before(w.Now()) && (w.recordsNode(node) || i.isListed(w.pool.owner.stored()) || i.isListed(e.After)) {
			if err := w.poolDrained(node); err != nil {
				return err
			}
		}
	}
	return nil
}

// isListed reports whether an object, which may be nil, lists an instance in one of the two forms.
func (i *poolInstance) isListed(obj *unstructured.Unstructured) bool {
	if obj == nil {
		return false
	}
	ids, _, _ := unstructured.NestedStringSlice(obj.Object, "spec", "providerIDList")
	return slices.Contains(ids, i.id) || slices.Contains(ids, respelled(i.id))
}

// poolDrained reports an error for a Pod that holds a Node.
func (w *World) poolDrained(node *unstructured.Unstructured) error {
	shown := w.acting.nodes(w.clusters[0]).ByName(node.GetName())
	root := w.pool.owner.stored()
	if shown == nil || shown.UID != node.GetUID() || w.overPoolLimit(node) || root != nil && w.overPoolLimit(root) {
		return nil
	}
	for _, pod := range w.podsOn(node) {
		if !excused(w.acting, shown, pod) {
			return fmt.Errorf("the Node %s has the Pod %s", node.GetName(), pod.Name)
		}
	}
	return nil
}

// partDrained reports an error for a Pod that holds the Node of an instance with an infrastructure object.
func (w *World) partDrained(p *process, part *unstructured.Unstructured) error {
	node := w.object("Node", "", w.pool.ids[providerIDIn(part)].name)
	if node == nil || providerIDIn(node) != providerIDIn(part) || p.controller != "machine" {
		return nil
	}
	return w.poolDrained(node)
}

// overPoolLimit reports whether the time for the drain can be over by the clock of the process that acts.
func (w *World) overPoolLimit(obj *unstructured.Unstructured) bool {
	began, err := time.Parse(time.RFC3339, obj.GetAnnotations()[contract.DrainStartedAnnotation])
	return w.apps.limit > 0 && err == nil && w.acting.clock().Since(began)+skewSlack+2*w.far >= w.apps.limit
}
