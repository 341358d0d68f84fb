package main

import (
	"context"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/bench"
)

// trial is a fleet that a manager reconciles.
type trial struct {
	*comparison

	fleet   *fleet
	manager *arms.Manager
	extras  bool // live heap and rest are measured too
}

// figures lets the manager reconcile the fleet from its creation to its deletion.
func (t *trial) figures(ctx context.Context) (*figures, error) {
	f := &figures{Machines: t.fleet.machines}
	var empty float64
	var err error
	if t.extras {
		if empty, err = t.manager.LiveHeap(ctx); err != nil {
			return nil, err
		}
	}
	if f.Create, err = t.phase(ctx, t.fleet.create); err != nil {
		return nil, err
	}
	if t.extras {
		if err := t.measureExtras(ctx, f, empty); err != nil {
			return nil, err
		}
	}
	f.Delete, err = t.phase(ctx, t.fleet.remove)
	return f, err
}

// phase measures the creation or deletion of a whole fleet, until the manager is at rest.
func (t *trial) phase(ctx context.Context, act func(context.Context) (time.Duration, error)) (phase, error) {
	var p phase
	mark, err := t.plane.Audit().Mark()
	if err != nil {
		return p, err
	}
	before, err := t.manager.CPUSeconds(ctx)
	if err != nil {
		return p, err
	}
	wall, err := act(ctx)
	if err != nil {
		return p, err
	}
	own, err := t.manager.Rest(ctx, t.plane, mark)
	if err != nil {
		return p, err
	}
	after, err := t.manager.CPUSeconds(ctx)
	if err != nil {
		return p, err
	}
	p.Wall, p.CPU = wall.Seconds(), (after-before)/float64(t.fleet.machines)
	p.fromEvents(own, t.fleet.machines)
	return p, nil
}

// measureExtras measures Running Machines: live heap with pods on their Nodes, and requests.
func (t *trial) measureExtras(ctx context.Context, f *figures, empty float64) error {
	if t.steady > 0 {
		t.say("  %s: counting the requests of Running Machines for %s", t.fleet.name, t.steady)
		mark, err := t.plane.Audit().Mark()
		if err != nil {
			return err
		}
		if err := bench.Sleep(ctx, t.steady); err != nil {
			return err
		}
		events, err := t.plane.Audit().Since(mark)
		if err != nil {
			return err
		}
		f.Steady = restsOf(events.From(t.manager.Agent), t.steady.Seconds())
	}
	p := &pods{fleet: t.fleet, clientset: t.clientset, perNode: t.pods}
	if t.pods > 0 {
		t.say("  %s: running %d pods for live heap", t.fleet.name, t.fleet.machines*t.pods)
		if err := p.run(ctx); err != nil {
			return err
		}
	}
	full, err := t.manager.LiveHeap(ctx)
	if err != nil {
		return err
	}
	f.Heap = heapOf(empty, full, t.fleet.machines, t.pods)
	if t.pods > 0 {
		return p.end(ctx)
	}
	return nil
}
