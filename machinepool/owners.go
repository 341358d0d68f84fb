package machinepool

import (
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// ownedByCluster returns the owner references of a pool with its Cluster among them, and whether that is a change. A reference to a
// Cluster of that name which is gone goes: the garbage collector would take the pool for its.
func ownedByCluster(have []metav1.OwnerReference, cluster metav1.OwnerReference) ([]metav1.OwnerReference, bool) {
	if slices.ContainsFunc(have, func(ref metav1.OwnerReference) bool { return ref.UID == cluster.UID }) {
		return have, false
	}
	return contract.WithOwner(have, cluster), true
}

// own returns the owner references of an object that the pool is to control. Another controller is a conflict, named by foreign, and
// nothing changes. Owners that control nothing stay, and a reference to the pool as it was before it was restored from a backup becomes
// one to the pool. Rule: contract page "InfraMachinePool", OwnerReferences.
func own(have []metav1.OwnerReference, pool metav1.OwnerReference) (want []metav1.OwnerReference, changed bool, foreign *metav1.OwnerReference) {
	for i := range have {
		if ref := have[i]; ref.Controller != nil && *ref.Controller && !contract.IsOwner(ref, pool) {
			return nil, false, &ref
		}
	}
	want = contract.WithOwner(have, pool)
	return want, !contract.SameOwners(have, want), nil
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

// sameness is whether the pool is still the one that was read, as the API server said when it was asked. Safe for concurrent use.
type sameness struct {
	mu   sync.Mutex
	said contract.Opt[bool]
}

// isSame asks the API server, once in a pass, whether there is no other pool of the name: the cache may be behind.
func (p *pass) isSame(ctx context.Context) (bool, error) {
	p.same.mu.Lock()
	defer p.same.mu.Unlock()
	if same, known := p.same.said.Get(); known {
		return same, nil
	}
	same, err := external.ConfirmUID(ctx, p.env.ports.APIReader, p.env.kinds.Pool.GVK, p.state.Key, p.state.UID)
	if err == nil {
		p.same.said = contract.Some(same)
	}
	return same, err
}

// owns says whether the pool controls an object, also by a UID from before a restore.
func (p *pass) owns(ctx context.Context, obj client.Object) (bool, error) {
	owner := metav1.GetControllerOfNoCopy(obj)
	if owner == nil || !contract.IsOwner(*owner, p.ownerReference()) {
		return false, nil
	}
	if owner.UID == p.state.UID {
		return true, nil
	}
	return p.isSame(ctx)
}

// observeReferenced reads a referenced object, and makes the pool its controller. What breaks the contract is a Problem.
func (p *pass) observeReferenced(ctx context.Context, ref contract.Ref, read func(external.Object) error) (external.Object, error) {
	found, err := p.env.tracker.Get(ctx, p.state.Key, ref)
	p.requeue(found.RetryAfter)
	if err != nil || found.Presence != external.Present {
		return found, err
	}
	if err := p.takeOwnership(ctx, &found); err != nil {
		found.Presence = external.Unread // it is not known whose it is
		return found, err
	}
	if err := read(found); err != nil && !found.Foreign {
		found.Problem = external.Problem{Reason: external.ReasonContractViolation, Message: err.Error()}
	}
	return found, nil
}

// takeOwnership makes the pool the controller of a referenced object and labels it, in one patch, when that is due; in a deletion, when
// the object names the pool by a UID from before a restore: the garbage collector would take it.
func (p *pass) takeOwnership(ctx context.Context, found *external.Object) error {
	obj, me := found.Object, p.ownerReference()
	owners, changed, foreign := own(obj.GetOwnerReferences(), me)
	restored := contract.RestoredOwner(obj.GetOwnerReferences(), me)
	untouched := found.Deleting() || p.env.writer.Behind(obj)
	if foreign == nil && restored && !untouched {
		same, err := p.isSame(ctx)
		if err != nil {
			return err
		}
		if !same { // the cache is behind: the object is that of the next pool of this name
			foreign = &me
		}
	}
	if foreign != nil {
		found.Foreign = true
		found.Problem = external.Problem{Reason: ReasonOwnedByAnother, Message: fmt.Sprintf(
			"%s %s is controlled by %s %s: let each MachinePool have an object of its own", found.Ref.Kind, found.Ref.Name,
			foreign.Kind, foreign.Name)}
		return nil
	}
	if untouched || (p.deleting() && !restored) {
		return nil
	}
	return p.writeOwners(ctx, found, owners, changed)
}

// writeOwners gives a referenced object its owners, when they are others, and the label of the cluster, when it is another.
func (p *pass) writeOwners(ctx context.Context, found *external.Object, owners []metav1.OwnerReference, changed bool) error {
	obj := found.Object
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
