package machineset

import (
	"context"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// scaleStep creates or deletes Machines. Names are reserved in the ledger before objects are created under them, and are removed from it
// before a Machine is deleted.
func scaleStep(ctx context.Context, s *Scope) (Result, error) {
	desired, known := s.State.Replicas.Get()
	if s.Deleting() {
		desired, known = 0, true
	}
	if known {
		if err := s.machines.AwaitRestored(ctx, int(desired)); err != nil {
			return Result{}, err
		}
	}
	settled := s.machines.Settle()
	if s.IsOrphaning() {
		return Result{}, s.machines.WriteLedger(ctx, settled.Abandon(len(settled.Pending)))
	}
	all := s.plannable()
	counted := all
	if !s.Deleting() { // Machines that were moved to the set and are not received yet are not part of the desired number
		counted = scale.ReceivedBy(&s.State.Metadata).Counted(all)
	}
	facts := scale.Facts{Machines: counted, Reserved: s.machines.Reserved(settled), Held: len(s.machines.Holds) > 0}
	if known {
		facts.Desired = contract.Some(int(desired))
	}
	d := s.plan(facts)
	next := s.machines.Abandon(settled, d.Abandon)
	if d.Create > 0 || len(next.Pending) > 0 && known && !facts.Held {
		naming, err := s.naming()
		if err != nil { // StepHolds holds before this, unless it was removed
			s.Hold(ReasonNaming, err.Error())
			return Result{}, nil
		}
		return Result{}, s.machines.Grow(ctx, next, d.Create, naming, s.createMachine)
	}
	if err := s.machines.WriteLedger(ctx, next); err != nil {
		return Result{}, err
	}
	return Result{}, s.machines.Delete(ctx, d.Delete, int(desired)+len(all)-len(counted))
}

// plan decides what to create or delete. With an invalid order nothing is deleted; a set that is being deleted needs no order.
func (s *Scope) plan(facts scale.Facts) scale.Decision {
	order, err := scale.ParseOrder(s.State.DeletionOrder)
	facts.Order = order
	d := scale.Plan(facts)
	if err != nil && len(d.Delete) > 0 && !s.Deleting() {
		d.Delete, s.orderErr = nil, err
	}
	return d
}

// naming returns the naming of the set's Machines. The error is about its naming template.
func (s *Scope) naming() (scale.Naming, error) {
	return scale.NewNaming(s.State.UID, s.State.Key.Name, s.State.ClusterName, s.State.MachineNaming)
}

// removeFinalizerStep removes the finalizer of a set in deletion when the API server confirms that it has no Machines, or when its Machines
// are orphaned.
func removeFinalizerStep(ctx context.Context, s *Scope) (Result, error) {
	switch {
	case s.IsOrphaning():
	case len(s.machines.Own) > 0 || (len(s.machines.Ledger.Pending) > 0 && !s.machines.IsHeld(children.ReasonLedgerUnreadable)):
		return Result{}, nil
	default:
		if gone, err := s.machines.AllGone(ctx); err != nil || !gone {
			return Result{}, err
		}
	}
	return Result{}, s.Release(ctx)
}
