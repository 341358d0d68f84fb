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

// isNotMissed reports whether a Machine in deletion does not refer to an object, or does not any more.
func (s *Scope) isNotMissed(ref contract.Ref) bool { return ref.IsZero() && !s.State.Deleting.IsZero() }

// look looks at a referenced object, and makes the Machine its controller if it may. After an error, what is known of it is to be
// used for nothing.
func (s *Scope) look(ctx context.Context, ref contract.Ref) (external.Object, error) {
	found, err := s.env.tracker.Get(ctx, s.State.Key, ref)
	if err == nil && found.Presence == external.Present {
		err = s.takeOwnership(ctx, &found)
	}
	return found, err
}

// lookUnless looks at a referenced object that no step of this pass has looked at: a step that is removed, or that runs in another part of
// the Machine's life, must not leave the object behind.
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

// takeOwnership makes a running Machine the controller of a referenced object and labels it, in one patch, when that is due. So it is in
// a deletion when the object names the Machine by a UID from before a restore: the garbage collector would take it before the drain.
// An object of another controller becomes a Problem, so that nothing is taken over from it.
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
		if !same { // the cache is behind: the object is that of the next Machine of this name
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
	written := &metav1.PartialObjectMetadata{} // nothing else of the answer is looked at
	written.SetGroupVersionKind(found.GVK)
	written.SetNamespace(obj.GetNamespace())
	written.SetName(obj.GetName())
	if err := s.env.writer.Patch(ctx, written, map[string]any{"metadata": metadata}, false); err != nil {
		return fmt.Errorf("take ownership of %s %s: %w", found.Ref.Kind, found.Ref.Name, err)
	}
	return nil
}

// isGoing reports whether a referenced object is on its way out, as the cache or this process knows.
func (s *Scope) isGoing(found external.Object) bool {
	return found.Deleting() || (found.Object != nil && !s.env.memory.asked(&s.State, found.Object.GetUID()).IsZero())
}

// deleteExternal asks for the deletion of a referenced object, once, by UID. An object that changed since it was read is a conflict
// while the Machine has no provider ID: it is read again first.
func (s *Scope) deleteExternal(ctx context.Context, found external.Object) error {
	if s.isGoing(found) {
		return nil
	}
	obj := found.Object
	uid := obj.GetUID()
	only := client.Preconditions{UID: &uid}
	if s.State.ProviderID == "" {
		// The provider may have made the machine since this was read, and nobody would know its ID once the object is gone.
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
