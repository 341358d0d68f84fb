package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// scale decides how many Machines to create or delete, and does it. Names are reserved in the ledger before objects are created under
// them, and leave it before a Machine is deleted.
func (s *Scope) scale(ctx context.Context, ledger scale.Ledger) error {
	machines := s.machines()
	settled, _ := ledger.Settle(machines, s.seen) // versions that cannot be compared were dealt with when they were read
	settled = s.restoring(settled)
	template, settled, err := s.burnOutdated(ctx, settled)
	if err != nil {
		return err
	}
	facts, orderErr := s.facts(machines, settled)
	if s.orphans() {
		return s.letGo(ctx, ledger, settled)
	}
	s.plan(facts, orderErr)
	next := settled.Abandon(s.decision.Abandon)
	creates, resumes := s.decision.Create > 0, len(next.Pending) > 0 && len(s.holds) == 0 && facts.Desired.Found()
	if creates { // what is resumed was asked for before
		shows, err := s.cacheShowsAll(ctx, ledger.Through)
		if err != nil || s.waiting {
			return err
		}
		creates, resumes = shows, resumes && shows
	}
	wait := s.mem().waits(s.state.Generation, s.now)
	switch {
	case wait > 0 && (creates || resumes):
		creates = false
		s.requeue(wait)
	case creates:
		var named bool
		if next, named = s.reserve(ctx, next); !named {
			return nil
		}
	case resumes:
		next, creates = next.Resume(), true
	}
	return s.carryOut(ctx, ledger, next, template, creates)
}

// plan decides. Without an order nothing is deleted until a person has corrected it.
func (s *Scope) plan(facts scale.Facts, orderErr error) {
	s.decision = scale.Plan(facts)
	if orderErr != nil && len(s.decision.Delete) > 0 {
		s.decision.Delete = nil
		s.decision.Held = append(s.decision.Held, scale.Hold{Reason: ReasonDeletionOrderUnreadable, Message: orderErr.Error()})
	}
}

// reserve takes names for the Machines that are to be created, and reports false, with a hold, when there are none.
func (s *Scope) reserve(ctx context.Context, ledger scale.Ledger) (scale.Ledger, bool) {
	naming, err := scale.NewNaming(s.state.UID, s.state.Key.Name, s.state.ClusterName, s.state.MachineNaming)
	if err != nil {
		s.hold(ReasonNaming, err.Error())
		return ledger, false
	}
	next, reserved := ledger.Reserve(s.decision.Create, naming, func(name string) bool { return s.taken(ctx, name) })
	if len(reserved) == 0 {
		s.hold(ReasonNaming, fmt.Sprintf("spec.machineNaming.template %q: all names that it makes are taken: give it more random characters",
			s.state.MachineNaming))
	}
	return next, len(reserved) > 0
}

// carryOut writes the ledger, and then creates or deletes.
func (s *Scope) carryOut(ctx context.Context, ledger, next scale.Ledger, template string, creates bool) error {
	if creates {
		next = next.Of(template)
	}
	if err := s.writeLedger(ctx, ledger, next); err != nil {
		return err
	}
	err := s.sweep(ctx, next)
	switch {
	case creates:
		return errors.Join(err, s.create(ctx, next))
	case len(s.decision.Delete) > 0:
		return errors.Join(err, s.delete(ctx, s.decision.Delete))
	}
	return errors.Join(err, s.end(ctx, next))
}

// facts are what the plan depends on. The error says that the order of deletions cannot be read; a set in deletion needs none.
func (s *Scope) facts(machines []scale.Machine, ledger scale.Ledger) (scale.Facts, error) {
	policy := s.env.options.Policy
	order, err := scale.ParseOrder(s.state.DeletionOrder)
	policy.Order = order
	facts := scale.Facts{Machines: machines, Reserved: len(ledger.Pending), Holds: s.holds, Policy: policy}
	if desired, known := s.state.Replicas.Get(); known {
		facts.Desired = contract.Some(int(desired))
	}
	if !s.state.Deleting.IsZero() {
		facts.Desired, facts.Policy.MaxUnavailable = contract.Some(0), contract.Opt[int]{}
		return facts, nil
	}
	return facts, err
}

// taken reports whether a name is that of a Machine. One that the cache does not have is found when it is asked for.
func (s *Scope) taken(ctx context.Context, name string) bool {
	return s.env.ports.Cache.Get(ctx, s.key(name), pass.NewObject(s.env.kinds.Machine), client.UnsafeDisableDeepCopy) == nil
}

// orphans reports whether the set goes and its Machines are to stay. The garbage collector takes the owner references away.
func (s *Scope) orphans() bool {
	return !s.state.Deleting.IsZero() && slices.Contains(s.state.Finalizers, metav1.FinalizerOrphanDependents)
}

// letGo ends a set whose Machines stay.
func (s *Scope) letGo(ctx context.Context, ledger, settled scale.Ledger) error {
	next := settled.Abandon(len(settled.Pending))
	if err := s.writeLedger(ctx, ledger, next); err != nil {
		return err
	}
	s.mem().swept = s.mem().swept && len(settled.Pending) == 0
	if err := s.sweep(ctx, next); err != nil {
		return err
	}
	// Without the set, objects that were created for a missing Machine can no longer be found. But objects that cannot be watched must not
	// delay a deletion for ever.
	if !s.mem().swept && s.now.Before(s.state.Deleting.Add(sweepLimit)) {
		s.requeue(external.UnsyncedRetry)
		return nil
	}
	return s.removeFinalizer(ctx)
}

// end removes the finalizer of a set in deletion that has no Machine any more, as the API server itself says.
func (s *Scope) end(ctx context.Context, ledger scale.Ledger) error {
	if s.state.Deleting.IsZero() || len(s.observed) > 0 || (len(ledger.Pending) > 0 && !s.held(ReasonLedgerUnreadable)) {
		return nil
	}
	live, err := s.ownLive(ctx)
	if err != nil {
		return err
	}
	if len(live) > 0 {
		s.requeue(behindRetry) // their events are on the way
		return nil
	}
	return s.removeFinalizer(ctx)
}

func (s *Scope) removeFinalizer(ctx context.Context) error {
	rest := slices.DeleteFunc(slices.Clone(s.state.Finalizers), func(f string) bool { return f == s.env.options.Finalizer })
	var u contract.MachineSetUpdate
	u.Finalizers = contract.SetTo(rest)
	if err := s.writeMain(ctx, u); err != nil && !external.SaysGone(err) {
		return err
	}
	s.finished = true
	return nil
}
