package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// PoolDrainsFirst is an invariant about MachinePools.
const PoolDrainsFirst = "an instance of a MachinePool goes only after its drain, the limit of it, or an excuse of the policy"

// poolInvariants are those of the reconciler of pools, which are checked in histories whose root is a MachinePool.
func poolInvariants() []Invariant {
	return []Invariant{
		{Name: "the replicas of a MachinePool are what users and providers write", AfterWrite: inPool(poolKind, poolReplicasStay)},
		{Name: "a MachinePool writes no Node that none of its instances has", AfterWrite: inPool("Node", poolOwnNodes)},
		{Name: "a MachinePool deletes no Node whose instance is there", AfterWrite: inPool("Node", poolKeepsNodes)},
		{Name: PoolDrainsFirst, AfterWrite: inPool("Node", poolDrainsNode)},
		{Name: PoolDrainsFirst, AfterWrite: inPool(poolInfraKind, poolDrainsAll)},
	}
}

// inPool checks what a process writes to objects of a kind in a pass over a pool.
func inPool(kind string, check func(*World, Write) error) func(*World, Write) error {
	return func(w *World, e Write) error {
		if w.pool == nil || w.acting == nil || w.acting.controller != "machinepool" || e.Before == nil || e.After.GetKind() != kind {
			return nil
		}
		return check(w, e)
	}
}

// poolReplicasStay: a pool never scales by itself, and so not to zero.
func poolReplicasStay(_ *World, e Write) error {
	if before, after := textAt(e.Before, "spec", "replicas"), textAt(e.After, "spec", "replicas"); before != after {
		return fmt.Errorf("they were %s and are %s", before, after)
	}
	return nil
}

func poolOwnNodes(_ *World, e Write) error {
	if !isOfPool(e.After.GetName()) {
		return fmt.Errorf("the Node %s", e.After.GetName())
	}
	return nil
}

// isDeletion reports whether a write is or begins a deletion.
func isDeletion(e Write) bool {
	return e.Before.GetDeletionTimestamp() == nil && (e.Removed || e.After.GetDeletionTimestamp() != nil)
}

// poolKeepsNodes holds until the pool is being deleted. It allows for a list in another form when a Node is not ready, which the pool holds
// for some minutes only, or a person has marked it as one that leaves, and for what a restored backup has about the instances.
func poolKeepsNodes(w *World, e Write) error {
	if !isDeletion(e) || w.pool.owner.leaves() || w.backups.restored || w.hasEnded(e.Before) || w.had(PoolRespells) &&
		(isMarked(e.Before) || readinessOf(e.Before) != isTrue(true)) {
		return nil
	}
	return fmt.Errorf("the Node %s is deleted, and its instance stays", e.After.GetName())
}

// poolDrainsNode is about Nodes in the cache of the acting process: when it reports one as drained, or deletes one whose kubelet answers.
func poolDrainsNode(w *World, e Write) error {
	leaves := isDeletion(e) && !w.pool.owner.leaves() && isReady(w.acting.view.nodes()[client.ObjectKeyFromObject(e.Before)])
	if leaves || !isDeletion(e) && reportsDrained(e.After) && !reportsDrained(e.Before) {
		return w.poolDrained(e.Before)
	}
	return nil
}

func reportsDrained(node *unstructured.Unstructured) bool {
	return node.GetAnnotations()[contract.DrainedAnnotation] == string(node.GetUID())
}

// poolDrainsAll is about the deletion of the infrastructure of a pool, which ends all instances. Of a Node that has registered again the
// pool has no record while no list names its instance, in one of the two forms.
func poolDrainsAll(w *World, e Write) error {
	if !isDeletion(e) {
		return nil
	}
	var known []string
	for _, obj := range append(w.Objects(poolKind), e.After) {
		ids, _, _ := unstructured.NestedStringSlice(obj.Object, "spec", "providerIDList")
		known = append(known, ids...)
	}
	for _, node := range w.Objects("Node") {
		is := func(id string) bool { return sameID(id, providerIDIn(node)) }
		if isOfPool(node.GetName()) && !w.hasEnded(node) && (w.isRecorded(node) || slices.ContainsFunc(known, is)) {
			if err := w.poolDrained(node); err != nil {
				return err
			}
		}
	}
	return nil
}

// poolDrained reports an error for a Pod that holds a Node, unless the time for the drain can be over by the clock of the acting process.
func (w *World) poolDrained(node *unstructured.Unstructured) error {
	shown := w.acting.nodes(w.clusters[0]).ByName(node.GetName())
	if w.apps == nil || shown == nil || shown.UID != node.GetUID() {
		return nil
	}
	for _, obj := range append(w.Objects(poolKind), node) {
		began := recordOf(obj).Stages[contract.StageDrain].Start
		if at := nodeDrainStarted(obj); !at.IsZero() {
			began = at
		}
		if w.apps.limit > 0 && !began.IsZero() && w.acting.clock().Since(began)+skewSlack+2*w.far >= w.apps.limit {
			return nil
		}
	}
	return w.emptied(w.acting, node, false)
}

// nodeDrainStarted is when the drain of a Node of a pool began, zero for no such record.
func nodeDrainStarted(node *unstructured.Unstructured) time.Time {
	text, _, _ := strings.Cut(node.GetAnnotations()[contract.DrainStartedAnnotation], " ")
	at, _ := time.Parse(time.RFC3339, text)
	return at
}
