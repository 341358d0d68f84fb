package machineset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/contract/patch"
)

// take makes the set the controller of a Machine, or lets go of it. It returns the Machine when it is the set's afterwards.
func (s *Scope) take(ctx context.Context, m *member, c claim) (*member, error) {
	owners := released(m.state.OwnerReferences, s.OwnerReference())
	if c != claimRelease {
		live, err := s.liveSet(ctx) // a set that was deleted and made again must not take over what its caches show
		if err != nil {
			return nil, err
		}
		if live.GetDeletionTimestamp() != nil {
			return nil, fmt.Errorf("%w: %s %s is being deleted", pass.ErrStale, s.env.kinds.Set.GVK.Kind, s.State.Key)
		}
		owners = owned(m.state.OwnerReferences, s.OwnerReference())
	}
	var u contract.MachineUpdate
	u.OwnerReferences = contract.SetTo(owners)
	written, err := s.writeMachine(ctx, m.obj, u)
	switch {
	case external.SaysGone(err):
		return nil, nil
	case err != nil && c == claimRelease:
		return nil, fmt.Errorf("release: %w", err)
	case err != nil:
		if !patch.Retryable(err) {
			s.Eventf(corev1.EventTypeWarning, eventFailedAdopt, actionAdopt, "Failed to adopt Machine %q: %v", m.state.Key.Name, err)
		}
		return nil, fmt.Errorf("adopt: %w", err)
	case c == claimRelease:
		s.Eventf(corev1.EventTypeNormal, eventRelease, actionRelease, "Released Machine %q, whose labels were changed", m.state.Key.Name)
		return nil, nil
	}
	s.Eventf(corev1.EventTypeNormal, eventAdopt, actionAdopt, "Adopted Machine %q", m.state.Key.Name)
	return s.read(written)
}

// writeMachine writes what an update says of a Machine, and returns what comes back; nothing is written when it says so already.
func (s *Scope) writeMachine(ctx context.Context, obj contract.Object, u contract.MachineUpdate) (contract.Object, error) {
	contents, err := patch.Apply(s.env.kinds.Machine, obj, u)
	if err != nil {
		return nil, err
	}
	document := contents.Main()
	if document.Empty() {
		return obj, nil
	}
	written := pass.NewObject(s.env.kinds.Machine)
	if err := s.env.frame.Writer.Send(ctx, obj, written, document, false, false); err != nil {
		return nil, fmt.Errorf("write %s %s/%s: %w", s.env.kinds.Machine.GVK.Kind, obj.GetNamespace(), obj.GetName(), err)
	}
	return written, nil
}
