package machineset

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// scale decides how many Machines to create or delete, and does it. Names are reserved in the ledger before objects are created under
// them, and leave it before a Machine is deleted.
func (s *Scope) scale(ctx context.Context) error {
	made := func(e scale.Entry) (client.Object, error) { return s.newMachine(s.seed(e)) }
	if err := s.machines.Repair(ctx, made); err != nil {
		return err
	}
	desired, known := s.State.Replicas.Get()
	if known {
		if err := s.machines.AwaitRestored(ctx, int(desired)); err != nil {
			return err
		}
	}
	settled := s.machines.Settle()
	if s.IsOrphaning() {
		return s.machines.WriteLedger(ctx, settled.Abandon(len(settled.Pending)))
	}
	d := s.plan(settled)
	next := s.machines.Abandon(settled, d.Abandon)
	if d.Create > 0 || len(next.Pending) > 0 && s.resumes() {
		naming, err := s.naming()
		if err != nil { // StepHolds holds before this, unless it was removed
			s.Hold(ReasonNaming, err.Error())
			return nil
		}
		return s.machines.Grow(ctx, next, d.Create, naming, s.createMachine)
	}
	if err := s.machines.WriteLedger(ctx, next); err != nil || len(d.Delete) == 0 {
		return err
	}
	return s.remove(ctx, d.Delete)
}

// resumes reports whether creations whose slots are reserved go on.
func (s *Scope) resumes() bool {
	return len(s.machines.Holds) == 0 && (s.State.Replicas.Found() || s.Deleting())
}

// plan decides. Without an order nothing is deleted until a person has corrected it; a set in deletion wants none, and needs no order.
func (s *Scope) plan(ledger scale.Ledger) scale.Decision {
	order, err := scale.ParseOrder(s.State.DeletionOrder)
	facts := scale.Facts{
		Machines: s.plannable(), Reserved: s.machines.Reserved(ledger), Held: len(s.machines.Holds) > 0, Order: order, Desired: contract.Some(0),
	}
	if s.Deleting() {
		return scale.Plan(facts)
	}
	facts.Machines, facts.Desired = scale.ReceivedBy(&s.State.Metadata).Counted(facts.Machines), contract.Opt[int]{}
	if desired, known := s.State.Replicas.Get(); known {
		facts.Desired = contract.Some(int(desired))
	}
	d := scale.Plan(facts)
	if err != nil && len(d.Delete) > 0 {
		d.Delete, s.orderErr = nil, err
	}
	return d
}

// naming names the Machines of the set. The error is about its naming template.
func (s *Scope) naming() (scale.Naming, error) {
	return scale.NewNaming(s.State.UID, s.State.Key.Name, s.State.ClusterName, s.State.MachineNaming)
}

// remove deletes Machines. Those that were moved to the set and are not received yet stay beside those that it wants.
func (s *Scope) remove(ctx context.Context, victims []scale.Victim) error {
	all, keep := s.plannable(), 0
	if !s.Deleting() {
		keep = int(s.State.Replicas.Or(0)) + len(all) - len(scale.ReceivedBy(&s.State.Metadata).Counted(all))
	}
	return s.machines.Delete(ctx, victims, keep)
}

// removeFinalizerStep removes the finalizer of a set in deletion that has no Machine any more, as the API server confirms, or whose
// Machines stay.
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
