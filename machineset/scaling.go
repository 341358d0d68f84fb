package machineset

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
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
	settled, err := s.burnOutdated(ctx, s.machines.Settle())
	if err != nil {
		return err
	}
	facts, orderErr := s.facts(settled)
	if s.IsOrphaning() {
		return s.machines.WriteLedger(ctx, settled.Abandon(len(settled.Pending)))
	}
	s.plan(facts, orderErr)
	next := s.machines.Abandon(settled, s.decision.Abandon)
	creates, resumes := s.decision.Create > 0, len(next.Pending) > 0 && len(s.machines.Holds) == 0 && facts.Desired.Found()
	if !creates && !resumes {
		return s.carryOut(ctx, next, false)
	}
	may, err := s.machines.MayCreate(ctx, creates)
	if err != nil || s.machines.Waiting {
		return err
	}
	if may && creates {
		var named bool
		if next, named = s.reserve(next); !named {
			return nil
		}
	}
	return s.carryOut(ctx, next, may)
}

// burnOutdated gives slots up of which part may have been made from another template.
func (s *Scope) burnOutdated(ctx context.Context, ledger scale.Ledger) (scale.Ledger, error) {
	if len(ledger.Pending) == 0 || len(s.machines.Holds) > 0 || s.Deleting() {
		return ledger, nil
	}
	return s.machines.BurnOutdated(ctx, ledger, s.fingerprint())
}

// plan decides. Without an order nothing is deleted until a person has corrected it.
func (s *Scope) plan(facts scale.Facts, orderErr error) {
	s.decision = scale.Plan(facts)
	if orderErr != nil && len(s.decision.Delete) > 0 {
		s.decision.Delete = nil
		s.decision.Held = append(s.decision.Held, scale.Hold{Reason: ReasonDeletionOrderUnreadable, Message: orderErr.Error()})
	}
}

// naming names the Machines of the set. The error is about its naming template.
func (s *Scope) naming() (scale.Naming, error) {
	return scale.NewNaming(s.State.UID, s.State.Key.Name, s.State.ClusterName, s.State.MachineNaming)
}

// reserve reserves names for the Machines to create, and reports false, with a hold, when no name is free.
func (s *Scope) reserve(ledger scale.Ledger) (scale.Ledger, bool) {
	naming, err := s.naming()
	if err != nil { // StepHolds holds before this, unless it was removed
		s.Hold(ReasonNaming, err.Error())
		return ledger, false
	}
	next, reserved := s.machines.Reserve(ledger, s.decision.Create, naming)
	if reserved == 0 {
		s.Hold(ReasonNaming, fmt.Sprintf("naming template %q: all names that it makes are taken: give it more random characters",
			s.State.MachineNaming))
	}
	return next, reserved > 0
}

// carryOut writes the ledger, and then creates or deletes.
func (s *Scope) carryOut(ctx context.Context, next scale.Ledger, creates bool) error {
	if creates {
		next = next.Of(s.fingerprint())
	}
	if err := s.machines.WriteLedger(ctx, next); err != nil {
		return err
	}
	switch {
	case creates:
		return s.machines.Create(ctx, s.createMachine)
	case len(s.decision.Delete) > 0:
		keep := int(s.State.Replicas.Or(0)) + s.uncounted
		if s.Deleting() {
			keep = 0
		}
		return s.machines.DeleteAsRead(ctx, s.decision.Delete, keep, s.unwell())
	}
	return nil
}

// unwell returns the versions in which Machines were read to be unhealthy, not ready or not available. Where some stay, such a Machine may
// go before others for that reason, so it is deleted only while it is as it was read: meanwhile it may have become available.
func (s *Scope) unwell() map[types.UID]string {
	versions := map[types.UID]string{}
	for i, m := range s.plannable() {
		if m.Unhealthy || !m.Ready || !m.Available {
			versions[m.UID] = s.machines.Own[i].ResourceVersion
		}
	}
	return versions
}

// facts are the inputs of the plan. The error means that the order of deletions cannot be read; a set in deletion needs none.
func (s *Scope) facts(ledger scale.Ledger) (scale.Facts, error) {
	order, err := scale.ParseOrder(s.State.DeletionOrder)
	all := s.plannable()
	facts := scale.Facts{Machines: scale.ReceivedBy(&s.State.Metadata).Counted(all), Order: order}
	facts.Reserved = s.machines.Reserved(ledger)
	facts.Holds = s.machines.Holds
	if desired, known := s.State.Replicas.Get(); known {
		facts.Desired = contract.Some(int(desired))
	}
	s.uncounted = len(all) - len(facts.Machines)
	if !s.State.Deleting.IsZero() {
		facts.Machines = all
		facts.Desired = contract.Some(0)
		return facts, nil
	}
	return facts, err
}

// removeFinalizerStep removes the finalizer of a set in deletion that has no Machine any more, as the API server confirms, or whose
// Machines stay.
func removeFinalizerStep(ctx context.Context, s *Scope) (Result, error) {
	switch {
	case s.IsOrphaning():
	case len(s.machines.Own) > 0 || (len(s.machines.Ledger.Pending) > 0 && !s.machines.IsHeld(ReasonLedgerUnreadable)):
		return Result{}, nil
	default:
		if gone, err := s.machines.AllGone(ctx); err != nil || !gone {
			return Result{}, err
		}
	}
	return Result{}, s.Release(ctx)
}
