package children

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/patch"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Make returns the child to create for a slot, with the annotations of scale.Stamp and the owner as its controller. It first creates the
// objects that the child references. own is false when an object of another owner has the name of such a part: then the slot is never used
// again. Make is called again for a slot whose creation has failed.
type Make func(ctx context.Context, e scale.Entry) (child client.Object, own bool, err error)

// passLimit is how long one pass continues to create, claim or delete children; the next pass resumes. It limits how long a process that
// has lost its Lease may still create.
const passLimit = time.Minute

// refusal is the error of a creation. The pass has evaluated its owner nevertheless.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// Create creates the children of the reserved slots, one after the other, until one fails. The ledger must have been written by this pass,
// or the API server must confirm that it is the stored one: with an old ledger, deleted children would be created again. Afterwards Create
// writes the ledger, and requests another pass for remaining slots, or if it finds a child that it has not created. A later pass resumes a
// failed creation under the same name. Rule: Cluster API's MachineSet controller; a quota or a broken webhook costs one rejected request,
// not hundreds.
func (s *Scope[S, U, CS, CU]) Create(ctx context.Context, create Make) error {
	if !s.current {
		if err := s.sameOwner(ctx); err != nil {
			return err
		}
		s.current = true
	}
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	done, left := map[string]bool{}, slices.Clone(s.Ledger.Pending)
	slices.SortStableFunc(left, func(a, b scale.Entry) int { // a failed creation does not delay the others
		return scale.TrueFirst(!s.memory.hasFailed(a.Name), !s.memory.hasFailed(b.Name))
	})
	if first := slices.DeleteFunc(slices.Clone(left), func(e scale.Entry) bool { return s.memory.failed[e.Name] == "" }); len(first) > 0 {
		left = first // no other child is created before these are recognized
	}
	var names []string
	var failed error
	for len(left) > 0 && ctx.Err() == nil {
		e := left[0]
		left = left[1:]
		uid, isNew, err := s.create(ctx, create, e)
		if err != nil {
			failed = refusal{err}
			s.memory.failed[e.Name] = cmp.Or(uid, s.memory.failed[e.Name])
			break
		}
		delete(s.memory.failed, e.Name)
		done[e.Name] = true
		if !isNew { // another process creates them, and they may be deleted again before this process reaches their names
			break
		}
		names = append(names, e.Name)
	}
	s.reportCreated(names, failed)
	if len(left) > 0 {
		s.owner.Requeue(engine.ConflictRetry)
	}
	// Existing children must be removed from the ledger: if one of them were deleted later, it would be created again.
	if err := s.WriteLedger(context.WithoutCancel(ctx), s.Ledger.Settle(done)); err != nil && !patch.Retryable(err) {
		return errors.Join(failed, err)
	}
	return failed
}

// Refused returns why the last attempt to create children failed, empty when it did not or there was none. It is empty also when no failed
// slot is reserved any more, because no attempt will follow that succeeds: another process has created the child, an answer was lost, or
// the child is not needed.
func (s *Scope[S, U, CS, CU]) Refused() string {
	if !slices.ContainsFunc(s.Ledger.Pending, func(e scale.Entry) bool { return s.memory.hasFailed(e.Name) }) {
		return ""
	}
	return s.memory.failure
}

// reportCreated records events about created children, and about the failure of the next one, which it remembers.
func (s *Scope[S, U, CS, CU]) reportCreated(names []string, failed error) {
	name := s.frame.kind.GVK.Kind
	s.memory.failure = ""
	if len(names) > 0 {
		s.owner.Eventf(corev1.EventTypeNormal, "SuccessfulCreate", "Create"+name, "Created %s", s.frame.named(names))
	}
	if failed != nil && !engine.IsStale(failed) {
		s.memory.failure = engine.Bounded(strings.ReplaceAll(failed.Error(), "\n", "; "), engine.MaxNoteLength)
		s.owner.Eventf(corev1.EventTypeWarning, "FailedCreate", "Create"+name, "Failed to create %ss: %v", name, failed)
	}
}

// create creates one child. The stamp decides about an existing object. It returns the UID of the owner's child, and whether it is new: an
// earlier pass may have created it, with a lost answer or a stale cache. After an error the slot stays reserved; otherwise it is never used
// again, even if another object has the name, or the child is being deleted.
func (s *Scope[S, U, CS, CU]) create(ctx context.Context, create Make, e scale.Entry) (uid types.UID, isNew bool, err error) {
	child, own, err := create(ctx, e)
	if err != nil || !own {
		return "", false, err
	}
	if lost := s.lost(child, e); lost != "" {
		return "", false, fmt.Errorf("Kinds.Maker made %s without %s of its seed, by which its owner recognizes it: correct the Maker",
			s.frame.nameOf(s.key(e.Name)), lost)
	}
	err = s.frame.owner.Ports.Client.Create(ctx, child)
	switch {
	case apierrors.IsAlreadyExists(err):
		have := engine.NewObject(s.frame.kind)
		if err := s.frame.Existing(ctx, have, s.frame.kind.GVK.Kind, s.key(e.Name)); err != nil {
			return "", false, err
		}
		if metav1.IsControlledBy(have, s.owner.Object) || s.memory.failed[e.Name] == have.GetUID() {
			return have.GetUID(), false, s.notKept(have, e)
		}
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("create %s: %w", s.frame.nameOf(s.key(e.Name)), err)
	}
	return child.GetUID(), true, s.notKept(child, e)
}
