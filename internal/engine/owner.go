package engine

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
)

// SetFinalizers replaces the finalizers.
func (s *Scope[S, U]) SetFinalizers(names []string) {
	have := s.Common()
	if slices.Equal(have.Finalizers, names) {
		return
	}
	have.Finalizers = names
	s.changes().Finalizers = contract.SetTo(names)
}

// AddFinalizer adds the finalizer of the Frame, and reports whether it was missing. It must be stored before a pass changes another object,
// because an object without a finalizer could be deleted and leak the objects that were created for it.
func (s *Scope[S, U]) AddFinalizer() bool {
	have := s.Common().Finalizers
	if slices.Contains(have, s.frame.Finalizer) {
		return false
	}
	s.SetFinalizers(append(slices.Clone(have), s.frame.Finalizer))
	return true
}

// RemoveFinalizer removes the finalizer of the Frame.
func (s *Scope[S, U]) RemoveFinalizer() {
	s.SetFinalizers(slices.DeleteFunc(slices.Clone(s.Common().Finalizers), func(name string) bool {
		return name == s.frame.Finalizer
	}))
}

// Keep adds the finalizer of the Frame, joins the Cluster (see JoinCluster), and writes both before anything else is changed. It stops the
// pass if that fails.
func (s *Scope[S, U]) Keep(ctx context.Context, adoptedBy ...string) (Result, error) {
	s.AddFinalizer()
	if err := s.JoinCluster(ctx, adoptedBy...); err != nil {
		return Result{Stop: true}, err
	}
	return s.StoreFinalizer(ctx)
}

// ClusterChanged is the message about an object of a kind whose Cluster was changed.
func ClusterChanged(kind string, object contract.Common, from string) string {
	return fmt.Sprintf("%s %s has the Cluster %q and had %q: the name of a Cluster cannot be changed: change it back",
		kind, object.Key, object.ClusterName, from)
}

// StoreFinalizer adds the finalizer of the Frame, and writes it before anything else is changed. It stops the pass if that fails, or if the
// API server accepts the write and does not store the finalizer.
func (s *Scope[S, U]) StoreFinalizer(ctx context.Context) (Result, error) {
	s.AddFinalizer()
	err := s.Commit(ctx)
	if name := s.frame.Finalizer; err == nil && !slices.Contains(s.Common().Finalizers, name) {
		err = fmt.Errorf("the API server accepted the finalizer %s of %s and did not store it: change the webhook that removes it",
			name, s.frame.name(s.Common().Key))
	}
	return Result{Stop: err != nil}, err
}

// Release removes the finalizer of the Frame now. The status is not changed, and the object is forgotten at the end of the pass. An object
// that is gone is not an error.
func (s *Scope[S, U]) Release(ctx context.Context) error {
	s.RemoveFinalizer()
	if err := s.Commit(ctx); err != nil && !external.IsGone(err) {
		return err
	}
	s.released = true
	return nil
}

// IsOrphaning reports whether the object is being deleted without its dependents: the garbage collector removes the owner references.
func (s *Scope[S, U]) IsOrphaning() bool {
	return s.Deleting() && slices.Contains(s.Common().Finalizers, metav1.FinalizerOrphanDependents)
}

// ClusterOwner returns the owner references of an object without a controller, including its Cluster, and whether that is a change. An
// object with one of the labels waits for its adoption. A Cluster that does not exist or is being deleted becomes no owner. Rule: Cluster
// API's shouldAdopt.
func ClusterOwner(m *contract.Metadata, cluster external.ClusterView, adoptedBy ...string) ([]metav1.OwnerReference, bool) {
	owner, found := ClusterReference(cluster).Get()
	if !found || slices.ContainsFunc(adoptedBy, func(label string) bool { _, found := m.Labels[label]; return found }) {
		return m.OwnerReferences, false
	}
	for _, ref := range m.OwnerReferences {
		isCluster := ref.Kind == owner.Kind && Group(ref.APIVersion) == cluster.GVK.Group
		if IsController(ref) || (isCluster && (ref.Name != owner.Name || ref.UID == owner.UID)) {
			return m.OwnerReferences, false
		}
	}
	// It replaces a reference to a deleted Cluster of that name, which would cause the garbage collector to delete the object.
	return contract.WithOwner(m.OwnerReferences, owner), true
}

// ClusterReference returns the reference to a Cluster as an owner. A Cluster that does not exist, was not read or is being deleted becomes
// no owner.
func ClusterReference(cluster external.ClusterView) contract.Opt[metav1.OwnerReference] {
	if cluster.Presence != external.Present || cluster.GVK.Empty() || cluster.State.UID == "" || !cluster.State.Deleting.IsZero() {
		return contract.Opt[metav1.OwnerReference]{}
	}
	version, kind := cluster.GVK.ToAPIVersionAndKind()
	return contract.Some(metav1.OwnerReference{APIVersion: version, Kind: kind, Name: cluster.State.Key.Name, UID: cluster.State.UID})
}

// IsController reports whether an owner reference is that of a controller.
func IsController(ref metav1.OwnerReference) bool { return ref.Controller != nil && *ref.Controller }

// Own returns the owner references of a referenced object with me as its controller. An owner for which gives returns true created the
// object for me, and releases it; nil means none. Any other controller is a conflict: it is returned as foreign, and nothing changes.
// References of owners that are not controllers are retained, and one with the UID that me had before a restore from a backup is replaced.
// Rule: InfraMachine contract, "OwnerReferences".
func Own(
	have []metav1.OwnerReference, me metav1.OwnerReference, gives func(metav1.OwnerReference) bool,
) (want []metav1.OwnerReference, changed bool, foreign *metav1.OwnerReference) {
	for i := range have {
		ref := have[i]
		switch {
		case contract.IsOwner(ref, me):
		case gives != nil && gives(ref):
			continue
		case IsController(ref):
			return nil, false, &ref
		}
		want = append(want, ref)
	}
	want = contract.WithOwner(want, me)
	return want, !contract.SameOwners(have, want), nil
}

// IsSame confirms with the API server that no other object has the name, because the cache may be behind. Safe for concurrent use.
func (s *Scope[S, U]) IsSame(ctx context.Context) (bool, error) {
	m := s.Common()
	live, err := external.ConfirmSame(ctx, s.frame.Ports.APIReader, s.frame.Kind.GVK, m.Key, m.UID)
	return live != nil, err
}

// IsKept confirms with the API server that the object is the one that was read and is not being deleted. Call it before something is
// created outside of the API server, which would be leaked if the cache is behind.
func (s *Scope[S, U]) IsKept(ctx context.Context) (bool, error) {
	m := s.Common()
	live, err := external.ConfirmSame(ctx, s.frame.Ports.APIReader, s.frame.Kind.GVK, m.Key, m.UID)
	return live != nil && live.DeletionTimestamp == nil, err
}

// ConfirmAbsent confirms with the API server that an object is gone, see external.ConfirmAbsent.
func (s *Scope[S, U]) ConfirmAbsent(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) (bool, error) {
	return external.ConfirmAbsent(ctx, s.frame.Ports.APIReader, gvk, key)
}

// OwnerReference returns the reference by which this object controls others.
func (s *Scope[S, U]) OwnerReference() metav1.OwnerReference {
	return s.frame.OwnerReference(s.Common().Metadata, true)
}

// TakeOwnership makes the object the controller of an object that it references, and labels that object with the Cluster, in one patch,
// when necessary. It does the same in a deletion when the referenced object has an owner reference with the UID that the object had before
// a restore, because the garbage collector would delete it first. An object of another controller becomes Foreign with a Problem, so that
// no value is copied from it. See Own for gives.
func (s *Scope[S, U]) TakeOwnership(ctx context.Context, found *external.Object, gives func(metav1.OwnerReference) bool) error {
	obj, me := found.Object, s.OwnerReference()
	owners, changed, foreign := Own(obj.GetOwnerReferences(), me, gives)
	restored := contract.RestoredOwner(obj.GetOwnerReferences(), me)
	untouched := found.Deleting() || s.frame.Writer.Behind(obj)
	if foreign == nil && restored && !untouched {
		same, err := s.IsSame(ctx)
		if err != nil {
			return err
		}
		if !same { // the cache is stale: the referenced object belongs to the next object of this name
			foreign = &me
		}
	}
	if foreign != nil {
		found.Foreign = true
		found.Problem = external.Problem{Reason: contract.ReasonOwnedByAnother, Message: fmt.Sprintf(
			"%s %s is controlled by %s %s: let each %s have an object of its own", found.Ref.Kind, found.Ref.Name,
			foreign.Kind, foreign.Name, s.frame.Kind.GVK.Kind)}
		return nil
	}
	if untouched || (s.Deleting() && !restored) {
		return nil
	}
	metadata := ownershipPatch(obj, owners, changed, s.Common().ClusterName)
	if len(metadata) == 0 {
		return nil
	}
	written, err := s.patchMetadata(ctx, "take ownership of", *found, metadata)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(written.OwnerReferences, func(ref metav1.OwnerReference) bool { return contract.IsOwner(ref, me) }) {
		return fmt.Errorf("take ownership of %s %s: the API server has not stored the owner reference: its CRD does not keep it, or a "+
			"webhook removes it", found.Ref.Kind, found.Ref.Name) // no event follows a write that changes nothing
	}
	return nil
}

// patchMetadata writes metadata of an object that was read, and returns the stored metadata. verb begins the error.
func (s *Scope[S, U]) patchMetadata(
	ctx context.Context, verb string, found external.Object, metadata map[string]any,
) (*metav1.PartialObjectMetadata, error) {
	written := &metav1.PartialObjectMetadata{} // the rest of the answer is not used
	written.SetGroupVersionKind(found.GVK)
	if err := s.frame.Writer.Send(ctx, found.Object, written, patch.Document{"metadata": metadata}, false); err != nil {
		return nil, fmt.Errorf("%s %s %s: %w", verb, found.Ref.Kind, found.Ref.Name, err)
	}
	return written, nil
}

// ownershipPatch returns the metadata that gives an object the owners and the cluster, empty when it already has them.
func ownershipPatch(obj metav1.Object, owners []metav1.OwnerReference, changed bool, cluster string) map[string]any {
	metadata := map[string]any{}
	if changed {
		metadata["ownerReferences"] = owners
	}
	if cluster != "" && obj.GetLabels()[contract.ClusterNameLabel] != cluster {
		metadata["labels"] = map[string]any{contract.ClusterNameLabel: cluster}
	}
	return metadata
}
