package children

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
)

// claim is the action of an owner for a child in its namespace.
type claim uint8

const (
	// claimNone: another controller owns it, or it does not match.
	claimNone claim = iota
	// claimOwn: the owner controls it.
	claimOwn
	// claimAdopt: it has the labels, and either no controller or one with the owner's name that no longer exists, after a restore of both.
	claimAdopt
	// claimRelease: the owner controls it, and its labels were changed so that the owner releases it.
	claimRelease
)

// decideClaim decides about a child. An owner adopts a child that has the labels and no controller, unless either is being deleted, and
// releases a child whose labels were changed. A child that does not match because the owner's own selector has changed is not released: the
// owner gives it the new labels. Neither is a child of another Cluster, or one that was not stored as created. Rule: the ReplicaSet
// controller's claims.
func (s *Scope[S, U, CS, CU]) decideClaim(m Child[CS]) claim {
	owner := s.owner.Common()
	controller := metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: m.OwnerReferences})
	matches := s.Selector.Matches(labels.Set(m.Labels))
	goes := !owner.Deleting.IsZero() || !m.Deleting.IsZero()
	switch {
	case controller != nil && controller.UID == owner.UID:
		if _, reserved := s.reserved(m.Key.Name); goes || matches || reserved { // its creation is not over
			return claimOwn
		}
		if gave := ReadGiven(m.Metadata); gave.Labels != nil && s.Selector.Matches(labels.Set(gave.Labels)) {
			return claimRelease
		}
		return claimOwn
	case !matches || goes || !s.inCluster(m):
		return claimNone
	case controller == nil || s.frame.isOwner(controller, owner.Key.Name): // this owner has the name, so the other one is gone
		return claimAdopt
	}
	return claimNone
}

// Owned returns owner references with the owner as the controller, instead of any other one. have is not changed.
func Owned(have []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	return contract.WithOwner(slices.DeleteFunc(slices.Clone(have), func(ref metav1.OwnerReference) bool {
		return engine.IsController(ref) && !contract.IsOwner(ref, owner)
	}), owner)
}

// released returns owner references without the owner.
func released(have []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(have), func(ref metav1.OwnerReference) bool { return ref.UID == owner.UID })
}

// claim adopts and releases, and sets the children that the owner controls then. A child that could not be adopted or released does not
// delay the others; nothing is created meanwhile, because it may count later.
func (s *Scope[S, U, CS, CU]) claim(ctx context.Context) ([]Child[CS], error) {
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	own := make([]Child[CS], 0, len(s.candidates))
	for _, m := range s.candidates {
		c := s.decideClaim(m)
		if c == claimOwn {
			own = append(own, m)
			s.recognize(m)
		}
		if c == claimNone || c == claimOwn {
			continue
		}
		if s.frame.owner.Writer.Behind(m.Object) {
			s.owner.Requeue(engine.BehindRetry)
			return nil, fmt.Errorf("%w: %s was changed a moment ago", engine.ErrStale, s.frame.nameOf(m.Key))
		}
		taken, stays, err := s.take(ctx, m, c)
		switch {
		case err != nil && engine.IsStale(err):
			return nil, err
		case err != nil:
			s.Unclaimed = append(s.Unclaimed, err)
			s.Hold(ReasonClaimFailed, engine.Bounded(err.Error(), engine.MaxNoteLength))
			taken, stays = m, c == claimRelease
		}
		if stays {
			own = append(own, taken)
		}
	}
	slices.SortFunc(s.Unclaimed, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return own, nil
}

// take makes the owner the controller of a child, or releases it. It returns the child in its new version, and whether the owner controls
// it.
func (s *Scope[S, U, CS, CU]) take(ctx context.Context, m Child[CS], c claim) (taken Child[CS], controls bool, err error) {
	owner, name := s.owner.Common(), s.frame.kind.GVK.Kind
	ref := s.frame.owner.OwnerReference(owner.Metadata, true)
	owners := released(m.OwnerReferences, ref)
	if c != claimRelease {
		if err := s.sameOwner(ctx); err != nil { // an owner that was deleted, or created again, must not adopt children from its stale caches
			return m, false, err
		}
		owners = Owned(m.OwnerReferences, ref)
	}
	var u CU
	contract.ChangesOf(&u).OwnerReferences = contract.SetTo(owners)
	written, err := engine.Write(ctx, s.frame.owner.Writer, s.frame.kind, m.Object, u)
	switch {
	case external.IsGone(err):
		return m, false, nil
	case err != nil && c == claimRelease:
		return m, false, fmt.Errorf("release: %w", err)
	case err != nil:
		if !patch.Retryable(err) {
			s.owner.Eventf(corev1.EventTypeWarning, "FailedAdopt", "Adopt"+name, "Failed to adopt %s %q: %v", name, m.Key.Name, err)
		}
		return m, false, fmt.Errorf("adopt: %w", err)
	case c == claimRelease:
		s.owner.Eventf(corev1.EventTypeNormal, "SuccessfulRelease", "Release"+name, "Released %s %q, whose labels were changed", name, m.Key.Name)
		return m, false, nil
	}
	taken, err = s.frame.child(written)
	switch {
	case err != nil:
		return taken, false, err
	case !slices.ContainsFunc(taken.OwnerReferences, func(have metav1.OwnerReference) bool { return contract.IsOwner(have, ref) }):
		return m, false, fmt.Errorf("adopt: the owner reference of %s is not kept: a webhook may remove it", s.frame.nameOf(m.Key))
	}
	s.owner.Eventf(corev1.EventTypeNormal, "SuccessfulAdopt", "Adopt"+name, "Adopted %s %q", name, m.Key.Name)
	return taken, true, nil
}
