package children

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// RestoredAnnotation of an owner that waits for its children since it was restored from a backup, with the owner's UID as the value, says
// that no more of them come: the owner creates what is missing. It means nothing to any other owner, also when it is restored with one.
const RestoredAnnotation = "machinist.dev/restored"

// Reasons of holds, beside those that NotShown and NotRestored return.
const (
	// ReasonLedgerUnreadable: the ledger cannot be read.
	ReasonLedgerUnreadable = "LedgerUnreadable"
	// ReasonClaimFailed: a child could not be adopted or released.
	ReasonClaimFailed = "ClaimFailed"
)

// NotShown is the reason of the hold on an owner with children that the cache does not show, such as MachinesNotShown.
func NotShown(name string) string { return name + "sNotShown" }

// NotRestored is the reason of the hold on an owner that had children before it was restored, while they do not exist.
func NotRestored(name string) string { return name + "sNotRestored" }

// readLedger reads the ledger. When the caches are too old to decide on, the pass waits.
func (s *Scope[CS, CU]) readLedger(ctx context.Context, had bool) (scale.Ledger, error) {
	owner := s.owner.Common()
	highest, facts := int64(0), scale.RecoveryFacts{Had: had}
	for _, m := range s.candidates {
		highest = max(highest, scale.SlotOf(m.Metadata, owner.UID))
		if controller := controllerOf(m.OwnerReferences); controller != nil && controller.UID == owner.UID {
			facts.Own++
		}
	}
	text, found := owner.Annotations[scale.LedgerAnnotation]
	ledger, err := scale.ParseLedger(text)
	switch {
	case found && err != nil:
		s.Hold(ReasonLedgerUnreadable, fmt.Sprintf("annotation %s: %v: correct it, or remove it", scale.LedgerAnnotation, err))
		return scale.Rebuilt(owner.UID, highest), nil
	case !found || !ledger.IsOf(owner.UID):
		facts.Foreign = found && ledger.Next > 1
		return s.recoverLedger(ctx, facts, highest)
	case ledger.Behind([]scale.Machine{{Slot: highest}}):
		return s.recoverLedger(ctx, scale.RecoveryFacts{Own: len(s.candidates)}, highest)
	}
	s.memory.trusted = s.memory.trusted && (text == s.memory.ledger || ledger.String() == s.memory.ledger)
	s.covers(ledger)
	return ledger, nil
}

// covers makes the pass wait for a cache that does not show yet what was created. A cache that cannot say what it has seen has seen at
// least its youngest child. Where that is not enough, and when the wait lasts, the API server is asked before anything is created, once
// for a ledger.
func (s *Scope[CS, CU]) covers(ledger scale.Ledger) {
	exact := s.seen != ""
	if !exact {
		s.seen = s.youngest()
	}
	covers, err := ledger.Covers(s.seen)
	if received := scale.ReceivedBy(s.owner.Common().Metadata); err == nil && covers {
		covers, err = scale.Ledger{Through: received.Through}.Covers(s.seen)
	}
	switch {
	case err == nil && covers:
		s.memory.caughtUp()
	case err == nil && exact && s.memory.missingFor(s.frame.clock.Now()) < scale.CacheLimit:
		s.wait()
	default:
		s.unsure = exact || s.memory.through != ledger.Through
	}
}

// youngest is the latest resource version among the candidates.
func (s *Scope[CS, CU]) youngest() string {
	latest := ""
	for _, m := range s.candidates {
		version := m.Object.GetResourceVersion()
		if order, err := resourceversion.CompareResourceVersion(version, latest); err != nil || order > 0 {
			latest = version
		}
	}
	return latest
}

// recoverLedger returns the ledger of an owner without a usable one of its own. A lost ledger is written again before anything is decided:
// that fails when the read of the owner is stale. Another client may have removed the annotation, or restored an earlier one with a
// manifest.
func (s *Scope[CS, CU]) recoverLedger(ctx context.Context, facts scale.RecoveryFacts, highest int64) (scale.Ledger, error) {
	owner := s.owner.Common()
	recovery, ledger := scale.Recover(facts), scale.Rebuilt(owner.UID, highest)
	if recovery == scale.Begin || !owner.Deleting.IsZero() {
		s.unsure = true
		if highest == 0 {
			ledger = scale.NewLedger()
		}
		return ledger, nil
	}
	live, err := s.frame.live(ctx, owner.Metadata)
	if err != nil {
		return scale.Ledger{}, err
	}
	text, found := owner.Annotations[scale.LedgerAnnotation]
	if now, there := live.GetAnnotations()[scale.LedgerAnnotation]; there != found || now != text {
		s.wait()
		return scale.Ledger{}, nil
	}
	s.unsure = true
	if shows, err := s.cacheShowsAll(ctx, ""); err != nil || !shows {
		return ledger, err
	}
	ledger.Restoring = recovery == scale.Restore
	return ledger, s.commit(ctx, ledger)
}

// beginLedger writes the ledger of an owner that has adopted children without creating any, before its status counts them: an owner whose
// status counts children, and that has neither children nor a ledger, is treated as a restored one.
func (s *Scope[CS, CU]) beginLedger(ctx context.Context) error {
	owner := s.owner.Common()
	_, found := owner.Annotations[scale.LedgerAnnotation]
	if len(s.Own) == 0 || (found && s.Ledger.Set != "") || !owner.Deleting.IsZero() || s.IsHeld(NotShown(s.frame.config.Name)) {
		return nil
	}
	s.Ledger.Set = owner.UID
	return s.commit(ctx, s.Ledger)
}

// WriteLedger writes a ledger that differs from the stored one, with the resourceVersion of the owner that was read, and sets Ledger. An
// owner that has changed meanwhile is read again first: the error matches patch.Retryable. A ledger that cannot be read is not replaced.
func (s *Scope[CS, CU]) WriteLedger(ctx context.Context, want scale.Ledger) error {
	if s.Ledger.String() != want.String() && !s.IsHeld(ReasonLedgerUnreadable) {
		if err := s.commit(ctx, want); err != nil {
			return err
		}
	}
	s.Ledger = want
	return nil
}

func (s *Scope[CS, CU]) commit(ctx context.Context, ledger scale.Ledger) error {
	text := ledger.String()
	s.owner.ChangeAnnotation(scale.LedgerAnnotation, contract.SetTo(text))
	err := s.owner.Commit(ctx)
	if err == nil {
		s.memory.ledger = text
	}
	return err
}

// Settle returns the ledger without the slots whose children were observed as they were created. WriteLedger has to write it before one of
// them is deleted.
func (s *Scope[CS, CU]) Settle() scale.Ledger {
	var machines []scale.Machine
	if len(s.Ledger.Pending) > 0 {
		for _, m := range s.Own {
			if _, found := s.unkept[m.Key.Name]; !found {
				machines = append(machines, scale.Machine{Name: m.Key.Name})
			}
		}
	}
	settled, _ := s.Ledger.Settle(machines, s.seen) // versions that cannot be compared were dealt with when they were read
	return settled
}

// AwaitRestored holds a restored owner that waits for its children, and returns the ledger to continue with. desired is how many children
// end the wait.
func (s *Scope[CS, CU]) AwaitRestored(ledger scale.Ledger, desired int) scale.Ledger {
	owner, name := s.owner.Common(), s.frame.kind.GVK.Kind
	if !ledger.Restoring || !owner.Deleting.IsZero() {
		return ledger
	}
	said := owner.Annotations[RestoredAnnotation] == string(owner.UID)
	if ledger.RestoreIsOver(len(s.Own), desired, said) {
		ledger.Restoring = false
		return ledger
	}
	s.Hold(NotRestored(s.frame.config.Name), fmt.Sprintf("%s was restored, moved or copied with its %ss yet to come: %d of %d are there; "+
		"if no more of them come, set annotation %s to %s", s.frame.owner.Kind, name, len(s.Own), desired, RestoredAnnotation, owner.UID))
	return ledger
}

// BurnOutdated returns the ledger without the slots of which part may have been made from another template than this one. A slot whose
// child exists, as the API server itself says, is whole, and only resumed: the cache has yet to show it.
func (s *Scope[CS, CU]) BurnOutdated(ctx context.Context, ledger scale.Ledger, template string) (scale.Ledger, error) {
	outdated := map[string]int64{}
	for _, e := range ledger.Outdated(template) {
		outdated[e.Name] = e.Slot
	}
	if len(outdated) == 0 || template == "" {
		return ledger, nil
	}
	live, err := s.Live(ctx)
	if err != nil {
		return ledger, err
	}
	for name, slot := range outdated {
		if _, exists := live[name]; !exists {
			ledger = ledger.Burn(slot)
		}
	}
	return ledger, nil
}

// MayCreate reports whether the owner may create children in this pass, after everything else has been decided: not while the cache does
// not show all children, nor shortly after creations have failed. more says that slots will be reserved; those that are only resumed were
// reserved by a pass that has asked. When Waiting is set, the pass ends.
func (s *Scope[CS, CU]) MayCreate(ctx context.Context, more bool) (bool, error) {
	if more {
		if shows, err := s.ShowsAll(ctx); err != nil || !shows {
			return false, err
		}
	}
	wait := s.memory.waits(s.owner.Common().Generation, s.frame.clock.Now())
	s.owner.Requeue(wait)
	return wait == 0, nil
}

// Reserve returns the ledger with new slots, fewer than n where names run out, and how many they are. It writes nothing.
func (s *Scope[CS, CU]) Reserve(ctx context.Context, ledger scale.Ledger, n int, naming scale.Naming) (scale.Ledger, int) {
	taken := func(name string) bool { // by a child that the cache does not show: its creation finds it
		return s.frame.ports.Cache.Get(ctx, s.key(name), engine.NewObject(s.frame.kind), client.UnsafeDisableDeepCopy) == nil
	}
	next, reserved := ledger.Reserve(n, naming, taken)
	return next, len(reserved)
}

// controlled reports whether the owner controls an object.
func (s *Scope[CS, CU]) controlled(obj metav1.Object) bool {
	controller := metav1.GetControllerOfNoCopy(obj)
	return controller != nil && controller.UID == s.owner.Common().UID
}
