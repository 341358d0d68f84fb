package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
)

// isNotMissed reports whether a Machine in deletion has no reference to an object, or no longer has one.
func (s *Scope) isNotMissed(ref contract.Ref) bool { return ref.IsZero() && !s.State.Deleting.IsZero() }

// look reads a referenced object, and makes the Machine its controller if allowed. After an error, do not use the result.
func (s *Scope) look(ctx context.Context, ref contract.Ref) (external.Object, error) {
	found, err := s.env.frame.Tracker.Get(ctx, s.State.Key, ref)
	if err == nil && found.Presence == external.Present {
		err = s.TakeOwnership(ctx, &found, s.givesUp())
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
	// While there is no provider ID, the provider may have created the instance since this object was read, and its ID would be lost with it.
	if err := s.DeleteReferenced(ctx, found, s.State.ProviderID == ""); err != nil {
		return err
	}
	s.env.memory.setAsked(&s.State, found.Object.GetUID())
	return nil
}

// givesUp selects the owners that created an object before its Machine existed, and give it up: the MachineSet, and the Cluster's control
// plane if the Machine belongs to it.
func (s *Scope) givesUp() func(metav1.OwnerReference) bool {
	plane := schema.GroupKind{}
	if _, member := s.State.Labels[contract.ControlPlaneLabel]; member {
		plane = s.Cluster.State.ControlPlane.GroupKind()
	}
	return func(ref metav1.OwnerReference) bool {
		group := pass.Group(ref.APIVersion)
		return (ref.Kind == "MachineSet" && group == s.env.kind.GVK.Group) || (!plane.Empty() && ref.Kind == plane.Kind && group == plane.Group)
	}
}
