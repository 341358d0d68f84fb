package machine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// isNotMissed reports whether a Machine in deletion has no reference to an object, or no longer has one.
func (s *Scope) isNotMissed(ref contract.Ref) bool { return ref.IsZero() && !s.State.Deleting.IsZero() }

// look reads a referenced object, and makes the Machine its controller if allowed. After an error, do not use the result.
func (s *Scope) look(ctx context.Context, ref contract.Ref) (external.Object, error) {
	found, err := s.env.tracker.Get(ctx, s.State.Key, ref)
	if err == nil && found.Presence == external.Present {
		err = s.takeOwnership(ctx, &found)
	}
	return found, err
}

// lookUnless reads a referenced object that no step of this pass has read. A step that is removed, or that does not run in a deletion,
// must not cause the object to be left behind.
func (s *Scope) lookUnless(ctx context.Context, have *external.Object, ref contract.Ref) error {
	if have.Presence != external.NotReferenced || ref.IsZero() {
		return nil
	}
	found, err := s.look(ctx, ref)
	if err == nil {
		*have = found
	}
	return err
}

// takeOwnership makes a running Machine the controller of a referenced object and labels it, in one patch, when necessary. It does the
// same in a deletion when the object has an owner reference with the UID that the Machine had before a restore: the garbage collector
// would delete the object before the drain. An object of another controller becomes a Problem, so that no value is copied from it.
func (s *Scope) takeOwnership(ctx context.Context, found *external.Object) error {
	obj, me := found.Object, s.env.ownerReference(&s.State)
	owners, changed, foreign := own(obj.GetOwnerReferences(), me, s.controlPlaneKind())
	restored := contract.RestoredOwner(obj.GetOwnerReferences(), me)
	untouched := found.Deleting() || s.env.writer.Behind(obj)
	if foreign == nil && restored && !untouched {
		same, err := external.ConfirmUID(ctx, s.env.ports.APIReader, s.env.kind.GVK, s.State.Key, s.State.UID)
		if err != nil {
			return err
		}
		if !same { // the cache is stale: the object belongs to the next Machine of this name
			foreign = &me
		}
	}
	if foreign != nil {
		found.Foreign = true
		found.Problem = external.Problem{Reason: ReasonOwnedByAnother, Message: fmt.Sprintf(
			"%s %s is controlled by %s %s: let each Machine have an object of its own", found.Ref.Kind, found.Ref.Name,
			foreign.Kind, foreign.Name)}
		return nil
	}
	if untouched || (!s.State.Deleting.IsZero() && !restored) {
		return nil
	}
	metadata := ownershipPatch(obj, owners, changed, s.State.ClusterName)
	if metadata == nil {
		return nil
	}
	written := &metav1.PartialObjectMetadata{} // the rest of the answer is not used
	written.SetGroupVersionKind(found.GVK)
	written.SetNamespace(obj.GetNamespace())
	written.SetName(obj.GetName())
	if err := s.env.writer.Patch(ctx, written, map[string]any{"metadata": metadata}, false); err != nil {
		return fmt.Errorf("take ownership of %s %s: %w", found.Ref.Kind, found.Ref.Name, err)
	}
	return nil
}

// isGoing reports whether a referenced object is being deleted, as the cache or this process knows.
func (s *Scope) isGoing(found external.Object) bool {
	return found.Deleting() || (found.Object != nil && !s.env.memory.asked(&s.State, found.Object.GetUID()).IsZero())
}

// deleteExternal requests the deletion of a referenced object, once, by UID. While the Machine has no provider ID, an object that changed
// since it was read is a conflict: it is read again first.
func (s *Scope) deleteExternal(ctx context.Context, found external.Object) error {
	if s.isGoing(found) {
		return nil
	}
	obj := found.Object
	uid := obj.GetUID()
	only := client.Preconditions{UID: &uid}
	if s.State.ProviderID == "" {
		// The provider may have created the instance since this object was read, and its ID would be lost with the object.
		only.ResourceVersion = new(obj.GetResourceVersion())
	}
	gone := &unstructured.Unstructured{} // what is deleted as metadata, controller-runtime 0.25 answers with an error
	gone.SetGroupVersionKind(found.GVK)
	gone.SetNamespace(obj.GetNamespace())
	gone.SetName(obj.GetName())
	err := s.env.ports.Client.Delete(ctx, gone, only)
	if err != nil && !external.SaysGone(err) {
		return fmt.Errorf("delete %s %s: %w", found.Ref.Kind, found.Ref.Name, err)
	}
	s.env.memory.setAsked(&s.State, uid)
	return nil
}
