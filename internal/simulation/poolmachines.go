package simulation

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

// partOf returns the infrastructure object that stands for an instance of the pool; nil without.
func (w *World) partOf(i *poolInstance) *unstructured.Unstructured {
	return w.object(partGVK().Kind, namespace, i.name)
}

// isOfPool reports whether the provider of the pool has made an infrastructure object.
func (w *World) isOfPool(part *unstructured.Unstructured) bool {
	return w.pool != nil && !isMisplaced(part) && w.pool.ids[providerIDIn(part)] != nil
}

// machineOfPool returns the Machine of an instance of the pool; nil without.
func (w *World) machineOfPool(i *poolInstance) *unstructured.Unstructured {
	if part := w.partOf(i); part != nil {
		return w.machineOf(part)
	}
	return nil
}

// poolStands keeps the infrastructure objects of a pool with Machines: one for each instance while that runs, and the end of an instance
// whose object is deleted.
func (w *World) poolStands(i *poolInstance) func() {
	part := w.partOf(i)
	switch {
	case !w.pool.machines:
		return nil
	case part == nil && !i.ended && w.poolInfra() != nil && w.poolInfra().GetDeletionTimestamp() == nil:
		return func() { w.represents(i) }
	case part == nil || providerIDIn(part) != i.id || isPaused(part):
		return nil
	case part.GetDeletionTimestamp() != nil && i.ended && slices.Contains(part.GetFinalizers(), providerFinalizer):
		return w.writes(part, `{"metadata":{"finalizers":null}}`)
	case !i.ended && (part.GetDeletionTimestamp() != nil || w.calm && hasFailure(part)): // the provider gives a failed one up
		return func() { w.ends(i) }
	case part.GetDeletionTimestamp() == nil && i.ended:
		return func() { w.deletesAs("provider", part.GetName(), part) }
	case !i.ended && textAt(part, "status", "initialization", "provisioned") != "true":
		return w.states(part, `{"status":{"initialization":{"provisioned":true},`+readyNow(w, true)+`}}`)
	}
	return nil
}

// represents creates the infrastructure object of an instance.
func (w *World) represents(i *poolInstance) {
	infra, part := w.poolInfra(), fake.InfraMachine(contract.V1Beta2, i.name, fake.WithField(i.id, "spec", "providerID"))
	part.SetNamespace(namespace)
	part.SetFinalizers([]string{providerFinalizer})
	part.SetLabels(map[string]string{contract.PoolNameLabel: RootName, contract.ClusterNameLabel: "c1"})
	part.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: infra.GetAPIVersion(), Kind: infra.GetKind(), Name: infra.GetName(), UID: infra.GetUID(),
	}})
	w.note("provider", "create "+part.GetKind()+" "+i.name, said(w.store.Client().Create(w.ctx, part)))
}

// releases is the provider that has the Machine of an instance deleted, which drains its Node; nil while that is under way.
func (w *World) releases(i *poolInstance) func() {
	m := w.machineOfPool(i)
	if m.GetDeletionTimestamp() != nil {
		return nil
	}
	return func() { w.deletesAs("provider", "Machine "+m.GetName(), m) }
}
