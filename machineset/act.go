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
	"github.com/machinist-dev/machinist/machineset/scale"
)

// scale decides how many Machines to create or delete, and does it. Names are reserved in the ledger before objects are created under
// them, and leave it before a Machine is deleted.
func (p *pass) scale(ctx context.Context, ledger scale.Ledger) error {
	machines := p.machines()
	settled, _ := ledger.Settle(machines, p.seen) // versions that cannot be compared were dealt with when they were read
	settled = p.restoring(settled)
	template, settled, err := p.burnOutdated(ctx, settled)
	if err != nil {
		return err
	}
	facts, orderErr := p.facts(machines, settled)
	if p.orphans() {
		return p.letGo(ctx, ledger, settled)
	}
	p.plan(facts, orderErr)
	next := settled.Abandon(p.decision.Abandon)
	creates, resumes := p.decision.Create > 0, len(next.Pending) > 0 && len(p.holds) == 0 && facts.Desired.Found()
	if creates { // what is resumed was asked for before
		shows, err := p.cacheShowsAll(ctx, ledger.Through)
		if err != nil || p.waiting {
			return err
		}
		creates, resumes = shows, resumes && shows
	}
	wait := p.mem().waits(p.state.Generation, p.now)
	switch {
	case wait > 0 && (creates || resumes):
		creates = false
		p.requeue(wait)
	case creates:
		var named bool
		if next, named = p.reserve(ctx, next); !named {
			return nil
		}
	case resumes:
		next, creates = next.Resume(), true
	}
	return p.carryOut(ctx, ledger, next, template, creates)
}

// plan decides. Without an order nothing is deleted until a person has corrected it.
func (p *pass) plan(facts scale.Facts, orderErr error) {
	p.decision = scale.Plan(facts)
	if orderErr != nil && len(p.decision.Delete) > 0 {
		p.decision.Delete = nil
		p.decision.Held = append(p.decision.Held, scale.Hold{Reason: ReasonDeletionOrderUnreadable, Message: orderErr.Error()})
	}
}

// reserve takes names for the Machines that are to be created, and reports false, with a hold, when there are none.
func (p *pass) reserve(ctx context.Context, ledger scale.Ledger) (scale.Ledger, bool) {
	naming, err := scale.NewNaming(p.state.UID, p.state.Key.Name, p.state.ClusterName, p.state.MachineNaming)
	if err != nil {
		p.hold(ReasonNaming, err.Error())
		return ledger, false
	}
	next, reserved := ledger.Reserve(p.decision.Create, naming, func(name string) bool { return p.taken(ctx, name) })
	if len(reserved) == 0 {
		p.hold(ReasonNaming, fmt.Sprintf("spec.machineNaming.template %q: all names that it makes are taken: give it more random characters",
			p.state.MachineNaming))
	}
	return next, len(reserved) > 0
}

// carryOut writes the ledger, and then creates or deletes.
func (p *pass) carryOut(ctx context.Context, ledger, next scale.Ledger, template string, creates bool) error {
	if creates {
		next = next.Of(template)
	}
	if err := p.writeLedger(ctx, ledger, next); err != nil {
		return err
	}
	err := p.sweep(ctx, next)
	switch {
	case creates:
		return errors.Join(err, p.create(ctx, next))
	case len(p.decision.Delete) > 0:
		return errors.Join(err, p.delete(ctx, p.decision.Delete))
	}
	return errors.Join(err, p.end(ctx, next))
}

// facts are what the plan depends on. The error says that the order of deletions cannot be read; a set in deletion needs none.
func (p *pass) facts(machines []scale.Machine, ledger scale.Ledger) (scale.Facts, error) {
	policy := p.env.options.Policy
	order, err := scale.ParseOrder(p.state.DeletionOrder)
	policy.Order = order
	facts := scale.Facts{Machines: machines, Reserved: len(ledger.Pending), Holds: p.holds, Policy: policy}
	if desired, known := p.state.Replicas.Get(); known {
		facts.Desired = contract.Some(int(desired))
	}
	if !p.state.Deleting.IsZero() {
		facts.Desired, facts.Policy.MaxUnavailable = contract.Some(0), contract.Opt[int]{}
		return facts, nil
	}
	return facts, err
}

// taken reports whether a name is that of a Machine. One that the cache does not have is found when it is asked for.
func (p *pass) taken(ctx context.Context, name string) bool {
	return p.env.ports.Cache.Get(ctx, p.key(name), newObject(p.env.kinds.Machine), client.UnsafeDisableDeepCopy) == nil
}

// orphans reports whether the set goes and its Machines are to stay. The garbage collector takes the owner references away.
func (p *pass) orphans() bool {
	return !p.state.Deleting.IsZero() && slices.Contains(p.state.Finalizers, metav1.FinalizerOrphanDependents)
}

// letGo ends a set whose Machines stay.
func (p *pass) letGo(ctx context.Context, ledger, settled scale.Ledger) error {
	next := settled.Abandon(len(settled.Pending))
	if err := p.writeLedger(ctx, ledger, next); err != nil {
		return err
	}
	p.mem().swept = p.mem().swept && len(settled.Pending) == 0
	if err := p.sweep(ctx, next); err != nil {
		return err
	}
	// Without the set, objects that were created for a missing Machine can no longer be found. But objects that cannot be watched must not
	// delay a deletion for ever.
	if !p.mem().swept && p.now.Before(p.state.Deleting.Add(sweepLimit)) {
		p.requeue(external.UnsyncedRetry)
		return nil
	}
	return p.removeFinalizer(ctx)
}

// end removes the finalizer of a set in deletion that has no Machine any more, as the API server itself says.
func (p *pass) end(ctx context.Context, ledger scale.Ledger) error {
	if p.state.Deleting.IsZero() || len(p.observed) > 0 || (len(ledger.Pending) > 0 && !p.held(ReasonLedgerUnreadable)) {
		return nil
	}
	live, err := p.ownLive(ctx)
	if err != nil {
		return err
	}
	if len(live) > 0 {
		p.requeue(behindRetry) // their events are on the way
		return nil
	}
	return p.removeFinalizer(ctx)
}

func (p *pass) removeFinalizer(ctx context.Context) error {
	rest := slices.DeleteFunc(slices.Clone(p.state.Finalizers), func(f string) bool { return f == p.env.options.Finalizer })
	var u contract.MachineSetUpdate
	u.Finalizers = contract.SetTo(rest)
	if err := p.writeMain(ctx, u); err != nil && !external.SaysGone(err) {
		return err
	}
	p.finished = true
	return nil
}
