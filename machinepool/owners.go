package machinepool

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// owns reports whether the pool controls an object, also by a UID from before a restore from a backup.
func (p *Scope) owns(ctx context.Context, obj client.Object) (bool, error) {
	owner := metav1.GetControllerOfNoCopy(obj)
	if owner == nil || !contract.IsOwner(*owner, p.OwnerReference()) {
		return false, nil
	}
	if owner.UID == p.State.UID {
		return true, nil
	}
	return p.IsSame(ctx)
}

// observeReferenced reads a referenced object, and makes the pool its controller. What breaks the contract is a Problem.
func (p *Scope) observeReferenced(ctx context.Context, ref contract.Ref, read func(external.Object) error) (external.Object, error) {
	found, err := p.env.frame.Tracker.Get(ctx, p.State.Key, ref)
	p.Requeue(found.RetryAfter)
	if err != nil || found.Presence != external.Present {
		return found, err
	}
	if err := p.TakeOwnership(ctx, &found, nil); err != nil {
		found.Presence = external.Unread // it is not known whose it is
		return found, err
	}
	if err := read(found); err != nil && !found.Foreign {
		found.Problem = external.Problem{Reason: external.ReasonContractViolation, Message: err.Error()}
	}
	return found, nil
}
