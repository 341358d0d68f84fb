package machinepool

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// ownedByCluster returns the owner references of a pool with its Cluster among them, and whether that is a change. A reference to a
// Cluster of that name which is gone goes: the garbage collector would take the pool for its.
func ownedByCluster(have []metav1.OwnerReference, cluster metav1.OwnerReference) ([]metav1.OwnerReference, bool) {
	var owners []metav1.OwnerReference
	for _, ref := range have {
		if ref.Kind == cluster.Kind && groupOf(ref.APIVersion) == groupOf(cluster.APIVersion) && ref.Name == cluster.Name {
			if ref.UID == cluster.UID {
				return have, false
			}
			continue
		}
		owners = append(owners, ref)
	}
	return append(owners, cluster), true
}

// own returns the owner references of an object that the pool is to control. Another controller is a conflict, named by foreign, and
// nothing changes. Owners that control nothing stay. Rule: contract page "InfraMachinePool", OwnerReferences.
func own(have []metav1.OwnerReference, pool metav1.OwnerReference) (want []metav1.OwnerReference, changed bool, foreign *metav1.OwnerReference) {
	for i := range have {
		ref := have[i]
		if ref.UID == pool.UID {
			continue
		}
		if ref.Controller != nil && *ref.Controller {
			return nil, false, &ref
		}
		want = append(want, ref)
	}
	want = append(want, pool)
	return want, !sameOwners(have, want), nil
}

func sameOwners(a, b []metav1.OwnerReference) bool {
	yes := func(b *bool) bool { return b != nil && *b }
	return len(a) == len(b) && !slices.ContainsFunc(b, func(y metav1.OwnerReference) bool {
		return !slices.ContainsFunc(a, func(x metav1.OwnerReference) bool {
			return x.APIVersion == y.APIVersion && x.Kind == y.Kind && x.Name == y.Name && x.UID == y.UID &&
				yes(x.Controller) == yes(y.Controller) && yes(x.BlockOwnerDeletion) == yes(y.BlockOwnerDeletion)
		})
	})
}

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return apiVersion
	}
	return gv.Group
}

// ownerReference is the reference by which the pool controls an object. The GVK is the Kind's, because typed objects from a cache
// have none.
func (p *pass) ownerReference() metav1.OwnerReference {
	version, kind := p.env.kinds.Pool.GVK.ToAPIVersionAndKind()
	return metav1.OwnerReference{
		APIVersion: version, Kind: kind, Name: p.state.Key.Name, UID: p.state.UID, Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

// observeReferenced reads a referenced object, and makes the pool its controller. What breaks the contract is a Problem.
func (p *pass) observeReferenced(ctx context.Context, ref contract.Ref, read func(external.Object) error) (external.Object, error) {
	found, err := p.env.tracker.Get(ctx, p.state.Key, ref)
	p.requeue(found.RetryAfter)
	if err != nil || found.Presence != external.Present {
		return found, err
	}
	if err := p.takeOwnership(ctx, &found); err != nil {
		return found, err
	}
	if err := read(found); err != nil && !found.Foreign {
		found.Problem = external.Problem{Reason: external.ReasonContractViolation, Message: err.Error()}
	}
	return found, nil
}

// takeOwnership makes the pool the controller of a referenced object and labels it, in one patch, when that is due.
func (p *pass) takeOwnership(ctx context.Context, found *external.Object) error {
	obj := found.Object
	owners, changed, foreign := own(obj.GetOwnerReferences(), p.ownerReference())
	if foreign != nil {
		found.Foreign = true
		found.Problem = external.Problem{Reason: ReasonOwnedByAnother, Message: fmt.Sprintf(
			"%s %s is controlled by %s %s: let each MachinePool have an object of its own", found.Ref.Kind, found.Ref.Name,
			foreign.Kind, foreign.Name)}
		return nil
	}
	if p.deleting() || found.Deleting() || p.env.writer.Behind(obj) {
		return nil
	}
	metadata := map[string]any{"uid": string(obj.GetUID())}
	if changed {
		metadata["ownerReferences"] = owners
		metadata["resourceVersion"] = obj.GetResourceVersion()
	}
	if name := p.state.ClusterName; name != "" && obj.GetLabels()[contract.ClusterNameLabel] != name {
		metadata["labels"] = map[string]any{contract.ClusterNameLabel: name}
		changed = true
	}
	if !changed {
		return nil
	}
	written := &unstructured.Unstructured{}
	written.SetGroupVersionKind(found.GVK)
	written.SetNamespace(obj.GetNamespace())
	written.SetName(obj.GetName())
	if err := p.env.writer.Patch(ctx, written, map[string]any{"metadata": metadata}, false); err != nil {
		return fmt.Errorf("take ownership of %s %s: %w", found.Ref.Kind, found.Ref.Name, err)
	}
	return nil
}
