package children

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// RestoredAnnotation of an owner that waits for its children after a restore from a backup, with the owner's UID as the value, means that
// no more of them will come: the owner creates the missing ones. For any other owner it has no effect, even if it is restored with the
// owner.
const RestoredAnnotation = "machinist.dev/restored"

// Reasons of holds, in addition to those of NotShown and NotRestored.
const (
	// ReasonLedgerUnreadable: the ledger is invalid.
	ReasonLedgerUnreadable = "LedgerUnreadable"
	// ReasonClaimFailed: a child could not be adopted or released.
	ReasonClaimFailed = "ClaimFailed"
	// ReasonSelectorUnreadable: the selector of the owner is invalid, so no child is adopted or released either.
	ReasonSelectorUnreadable = "SelectorUnreadable"
	// ReasonSelectorMismatch: the selector does not select the labels that children get.
	ReasonSelectorMismatch = "SelectorDoesNotMatchTemplate"
	// ReasonNaming: the names of children are not valid, or none is free.
	ReasonNaming = "MachineNamingInvalid"
)

// NotShown is the reason of the hold on an owner whose children are missing in the cache, such as MachinesNotShown.
func NotShown(name string) string { return name + "sNotShown" }

// NotRestored is the reason of the hold on an owner that had children before it was restored, while they do not exist.
func NotRestored(name string) string { return name + "sNotRestored" }

// decideLedger returns the ledger to decide on. It is lost when the owner has children and either no ledger or one that is older than they
// are. It is foreign when it belongs to another owner, from which this one was restored, moved or copied. The error describes an invalid
// ledger, which a person must correct. highest is the highest slot among the children; controls: the owner controls one of them. An owner
// with children always has its own ledger, so that a restore without them is detected. An owner in deletion reserves no slots, and its
// ledger is not changed.
func decideLedger(owner contract.Common, highest int64, controls bool) (ledger scale.Ledger, lost, foreign bool, err error) {
	text, found := owner.Annotations[scale.LedgerAnnotation]
	ledger, err = scale.ParseLedger(text)
	rebuilt := scale.Rebuilt(owner.UID, highest)
	switch {
	case found && err != nil:
		return rebuilt, false, false, err
	case found && !ledger.IsOf(owner.UID):
		return rebuilt, false, true, nil
	case found && ledger.Set != "" && highest < ledger.Next:
		return ledger, false, false, nil
	case controls && owner.Deleting.IsZero():
		rebuilt.Replaced = ledger.Replaced
		return rebuilt, true, false, nil
	case !found:
		return scale.NewLedger(), false, false, nil
	}
	return ledger, false, false, nil
}

// readLedger sets Ledger, holds an owner whose ledger is invalid, and reports whether it is lost.
func (s *Scope[S, U, CS, CU]) readLedger() (lost bool) {
	owner, controls := s.owner.Common(), false
	for _, m := range s.candidates {
		s.highest = max(s.highest, scale.SlotOf(m.Metadata, owner.UID))
		controls = controls || metav1.IsControlledBy(m.Object, s.owner.Object)
	}
	var err error
	if s.Ledger, lost, s.restored, err = decideLedger(owner, s.highest, controls); err != nil {
		s.Hold(ReasonLedgerUnreadable, fmt.Sprintf("annotation %s: %v: correct it, or remove it", scale.LedgerAnnotation, err))
	}
	return lost
}

// rebuildLedger writes a lost ledger, once the cache has all children, so that no slot of theirs is reserved again, nor one of a child that
// another owner has taken. If only the owner was read from a stale cache, it fails with a conflict.
func (s *Scope[S, U, CS, CU]) rebuildLedger(ctx context.Context) error {
	if shows, err := s.ShowsAll(ctx); err != nil || !shows {
		return err
	}
	ledger := scale.Rebuilt(s.owner.Common().UID, s.highest)
	ledger.Replaced = s.Ledger.Replaced
	return s.commit(ctx, ledger)
}

// WriteLedger writes a ledger that differs from the stored one, with the resourceVersion of the owner that was read, and sets Ledger. An
// owner that has changed must be read again first: the error matches patch.Retryable. An invalid ledger, or one of an owner that waits for
// its children since a restore, is not replaced.
func (s *Scope[S, U, CS, CU]) WriteLedger(ctx context.Context, want scale.Ledger) error {
	if s.Ledger.String() != want.String() && !s.IsHeld(ReasonLedgerUnreadable) && !s.restored {
		return s.commit(ctx, want)
	}
	s.Ledger = want
	return nil
}

func (s *Scope[S, U, CS, CU]) commit(ctx context.Context, ledger scale.Ledger) error {
	s.owner.ChangeAnnotation(scale.LedgerAnnotation, contract.SetTo(ledger.String()))
	if err := s.owner.Commit(ctx); err != nil {
		return err
	}
	s.Ledger, s.current = ledger, true
	return nil
}

// Settle returns the ledger without the slots whose children were observed as they were created. WriteLedger must write it before one of
// them is deleted.
func (s *Scope[S, U, CS, CU]) Settle() scale.Ledger {
	if len(s.Ledger.Pending) == 0 {
		return s.Ledger
	}
	there := map[string]bool{}
	for _, m := range s.Own {
		there[m.Key.Name] = !s.unkept[m.Key.Name]
	}
	return s.Ledger.Settle(there)
}

// AwaitRestored holds an owner with the ledger of another one until it has as many children as desired, or a person sets
// RestoredAnnotation. Then the owner begins its own ledger, behind all slots of its children.
func (s *Scope[S, U, CS, CU]) AwaitRestored(ctx context.Context, desired int) error {
	owner, name := s.owner.Common(), s.frame.kind.GVK.Kind
	if !s.restored || !owner.Deleting.IsZero() {
		return nil
	}
	if len(s.Own) >= desired || owner.Annotations[RestoredAnnotation] == string(owner.UID) {
		s.restored = false
		return s.commit(ctx, s.Ledger)
	}
	s.Hold(NotRestored(s.frame.name), fmt.Sprintf("%s was restored, moved or copied with its %ss yet to come: %d of %d are there; "+
		"if no more of them come, set annotation %s to %s",
		s.frame.owner.Kind.GVK.Kind, name, len(s.Own), desired, RestoredAnnotation, owner.UID))
	return nil
}

// Grow reserves n more slots, and creates the children of all reserved ones. Before it reserves any, the API server confirms that the cache
// has all children (see ShowsAll); otherwise nothing is created. It holds the owner when all names are used. Slots that are only resumed
// were reserved after such a confirmation. The ledger is written before anything is created under its names.
func (s *Scope[S, U, CS, CU]) Grow(ctx context.Context, ledger scale.Ledger, n int, naming scale.Naming, create Make) error {
	if n > 0 {
		shows, err := s.ShowsAll(ctx)
		if err != nil || s.Waiting {
			return err
		}
		if !shows {
			return s.WriteLedger(ctx, ledger)
		}
		ledger.Next = max(ledger.Next, s.highest+1) // also behind children that other owners have taken
		var reserved []scale.Entry
		if ledger, reserved = ledger.Reserve(n, naming, func(name string) bool { return s.names[name] }); len(reserved) == 0 {
			s.Hold(ReasonNaming, "all names that the naming template makes are taken: give it more random characters")
			return nil
		}
	}
	if err := s.WriteLedger(ctx, ledger); err != nil {
		return err
	}
	return s.Create(ctx, create)
}
