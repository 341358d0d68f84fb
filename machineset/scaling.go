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
func (s *Scope) scale(ctx context.Context) error {
	ledger, machines := s.ledger, s.plannable()
	settled, _ := ledger.Settle(machines, s.seen) // versions that cannot be compared were dealt with when they were read
	settled = s.restoring(settled)
	template, settled, err := s.burnOutdated(ctx, settled)
	if err != nil {
		return err
	}
	facts, orderErr := s.facts(machines, settled)
	if s.orphans() {
		return s.abandon(ctx, ledger, settled)
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
	wait := s.mem.waits(s.State.Generation, s.Now)
	switch {
	case wait > 0 && (creates || resumes):
		creates = false
		s.Requeue(wait)
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

// reserve reserves names for the Machines to create, and reports false, with a hold, when no name is free.
func (s *Scope) reserve(ctx context.Context, ledger scale.Ledger) (scale.Ledger, bool) {
	naming, err := scale.NewNaming(s.State.UID, s.State.Key.Name, s.State.ClusterName, s.State.MachineNaming)
	if err != nil {
		s.Hold(ReasonNaming, err.Error())
		return ledger, false
	}
	next, reserved := ledger.Reserve(s.decision.Create, naming, func(name string) bool { return s.taken(ctx, name) })
	if len(reserved) == 0 {
		s.Hold(ReasonNaming, fmt.Sprintf("spec.machineNaming.template %q: all names that it makes are taken: give it more random characters",
			s.State.MachineNaming))
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
	s.ledger = next
	err := s.sweep(ctx, next)
	switch {
	case creates:
		return errors.Join(err, s.create(ctx, next))
	case len(s.decision.Delete) > 0:
		return errors.Join(err, s.delete(ctx, s.decision.Delete))
	}
	return s.deferError(err)
}

// facts are the inputs of the plan. The error means that the order of deletions cannot be read; a set in deletion needs none.
func (s *Scope) facts(machines []scale.Machine, ledger scale.Ledger) (scale.Facts, error) {
	policy := s.env.options.Policy
	order, err := scale.ParseOrder(s.State.DeletionOrder)
	policy.Order = order
	facts := scale.Facts{Machines: machines, Reserved: len(ledger.Pending), Holds: s.holds, Policy: policy}
	if desired, known := s.State.Replicas.Get(); known {
		facts.Desired = contract.Some(int(desired))
	}
	if !s.State.Deleting.IsZero() {
		facts.Desired, facts.Policy.MaxUnavailable = contract.Some(0), contract.Opt[int]{}
		return facts, nil
	}
	return facts, err
}

// taken reports whether a Machine in the cache has a name. One that the cache does not show is found by its creation.
func (s *Scope) taken(ctx context.Context, name string) bool {
	return s.env.frame.Ports.Cache.Get(ctx, s.key(name), pass.NewObject(s.env.kinds.Machine), client.UnsafeDisableDeepCopy) == nil
}

// orphans reports whether the set is being deleted without its Machines. The garbage collector removes the owner references.
func (s *Scope) orphans() bool {
	return !s.State.Deleting.IsZero() && slices.Contains(s.State.Finalizers, metav1.FinalizerOrphanDependents)
}

// abandon gives up what a set was about to create that is deleted without its Machines.
func (s *Scope) abandon(ctx context.Context, ledger, settled scale.Ledger) error {
	next := settled.Abandon(len(settled.Pending))
	if err := s.writeLedger(ctx, ledger, next); err != nil {
		return err
	}
	s.mem.swept = s.mem.swept && len(settled.Pending) == 0
	return s.sweep(ctx, next)
}

// removeFinalizerStep removes the finalizer of a set in deletion that has no Machine any more, as the API server confirms, or whose
// Machines stay.
func removeFinalizerStep(ctx context.Context, s *Scope) (Result, error) {
	switch {
	case s.orphans():
		// Without the set, objects that were created for a missing Machine can no longer be found. But objects that cannot be watched must
		// not delay a deletion for ever.
		if !s.mem.swept && s.Now.Before(s.State.Deleting.Add(sweepLimit)) {
			return Result{RequeueAfter: external.UnsyncedRetry}, nil
		}
	case len(s.observed) > 0 || (len(s.ledger.Pending) > 0 && !s.held(ReasonLedgerUnreadable)):
		return Result{}, nil
	default:
		live, err := s.ownLive(ctx)
		if err != nil {
			return Result{}, err
		}
		if len(live) > 0 { // their events are on the way
			return Result{RequeueAfter: pass.BehindRetry}, nil
		}
	}
	s.RemoveFinalizer()
	if err := s.Commit(ctx); err != nil && !external.SaysGone(err) {
		return Result{}, err
	}
	s.finished = true
	return Result{}, nil
}
