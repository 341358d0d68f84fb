package children

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/patch"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Make returns the child to create for a slot, with the annotations of scale.Stamp and the owner as its controller. It first creates what
// the child refers to. own is false when an object of another owner has the name of such a part: then the slot is never used again. Make is
// called from several goroutines for different slots, and again for a slot whose creation has failed.
type Make func(ctx context.Context, e scale.Entry) (child client.Object, own bool, err error)

// Creation is what came of the creation of one slot. With an error, the slot is still reserved. Burnt: another object has the name, or the
// child is being deleted.
type Creation struct {
	Entry scale.Entry
	Burnt bool
	Err   error

	uid   types.UID // of the owner's child
	found bool      // an earlier pass has made it, whose answer was lost or which the cache does not show yet
}

// Create creates the children of the reserved slots: one, and after each success twice as many at a time. The ledger was written by this
// pass, or the API server confirms that it is the stored one: with an old one, what was created and deleted would be created again. Create
// writes the ledger afterwards, and requests another pass for what is left. What fails is resumed by a later pass, under the same names. It
// returns one Creation for each slot that was tried, and the errors of all of them.
func (s *Scope[CS, CU]) Create(ctx context.Context, create Make) ([]Creation, error) {
	if !s.current {
		if err := s.sameOwner(ctx); err != nil {
			return nil, err
		}
		s.current = true
	}
	if limit := s.frame.config.PassLimit; limit > 0 {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = limited
	}
	sizes := batches{ceiling: s.frame.config.Parallel}
	done, left := s.Ledger, failedLast(s.Ledger.Pending, func(e scale.Entry) bool { return s.memory.failedSlots[e.Slot] })
	if first := slices.DeleteFunc(slices.Clone(left), func(e scale.Entry) bool { return s.memory.unkept[e.Slot] == "" }); len(first) > 0 {
		left = first // no other one is made before these are recognized
	}
	var all []Creation
	var names []string
	var failed []error
	for len(left) > 0 && len(failed) == 0 && ctx.Err() == nil {
		n := sizes.next(len(left))
		for _, c := range engine.InParallel(n, left[:n], func(e scale.Entry) Creation { return s.create(ctx, create, e) }) {
			s.memory.created(c)
			switch all = append(all, c); {
			case c.Err != nil:
				failed = append(failed, c.Err)
			case c.Burnt:
				done = done.Burn(c.Entry.Slot)
			default:
				done = done.Burn(c.Entry.Slot)
				if !c.found {
					names = append(names, c.Entry.Name)
				}
			}
		}
		left = left[n:]
	}
	s.memory.refuse(failed, s.frame.clock.Now())
	s.reportCreated(names, failed)
	// Children that exist must leave the ledger: if one of them were deleted later, it would be made again.
	if err := s.WriteLedger(context.WithoutCancel(ctx), done); err != nil && !patch.Retryable(err) {
		failed = append(failed, err)
	}
	if len(left) > 0 {
		s.owner.Requeue(engine.ConflictRetry)
	}
	return all, errors.Join(failed...)
}

// Refused says why the last attempt to create children has failed, empty when it has not, or when there was none. It is empty also when
// none of the slots that failed is reserved any more: another process has made the child, an answer was lost, or it is not wanted, so that
// no attempt will follow that succeeds.
func (s *Scope[CS, CU]) Refused() string {
	if !slices.ContainsFunc(s.Ledger.Pending, func(e scale.Entry) bool { return s.memory.failedSlots[e.Slot] }) {
		return ""
	}
	return s.memory.failure
}

func (s *Scope[CS, CU]) reportCreated(names []string, failed []error) {
	name := s.frame.kind.GVK.Kind
	if len(names) > 0 {
		s.owner.Eventf(corev1.EventTypeNormal, "SuccessfulCreate", "Create"+name, "Created %s", s.frame.named(names))
	}
	if len(failed) > 0 && !engine.IsStale(failed[0]) {
		s.owner.Eventf(corev1.EventTypeWarning, "FailedCreate", "Create"+name, "Failed to create %ss: %v", name, failed[0])
	}
}

// create creates one child. Whatever exists already is judged by its stamp.
func (s *Scope[CS, CU]) create(ctx context.Context, create Make, e scale.Entry) Creation {
	c, kind := Creation{Entry: e}, s.frame.kind.GVK.Kind
	child, own, err := create(ctx, e)
	if err != nil || !own {
		c.Err, c.Burnt = err, !own
		return c
	}
	if lost := s.lost(child, e); lost != "" {
		c.Err = fmt.Errorf("Kinds.Maker made %s without %s of its seed, by which its owner recognizes it: correct NewTypedMaker's function",
			s.frame.says(s.key(e.Name)), lost)
		return c
	}
	switch err := s.frame.ports.Client.Create(ctx, child); {
	case apierrors.IsAlreadyExists(err):
		have := engine.NewObject(s.frame.kind)
		if c.Err = s.Existing(ctx, have, kind, e.Name); c.Err != nil {
			return c
		}
		c.Burnt, c.found = !scale.IsMachineOf(have, s.owner.Common().UID, e.Slot), true
		if s.controlled(have) || s.memory.unkept[e.Slot] == have.GetUID() {
			c.uid = have.GetUID()
			c.keep(s.notKept(have, e))
		}
	case err != nil:
		c.Err = fmt.Errorf("create %s: %w", s.frame.says(s.key(e.Name)), err)
	default:
		c.uid = child.GetUID()
		c.keep(s.notKept(child, e))
	}
	return c
}

// keep reserves the slot of a child that its owner would not recognize.
func (c *Creation) keep(notKept error) {
	if notKept != nil {
		c.Err, c.Burnt = notKept, false
	}
}

// Existing reads an object of the owner's namespace that is said to exist from the API server itself. The error matches engine.ErrStale
// when it is gone. Safe for concurrent use.
func (s *Scope[CS, CU]) Existing(ctx context.Context, into client.Object, kind, name string) error {
	return s.frame.existing(ctx, into, kind, s.key(name))
}
