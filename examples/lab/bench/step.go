package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

const (
	// stepLimit is when an arm is given up. Stale reads can make Cluster API slow without client limits, but not this slow.
	stepLimit = 20 * time.Minute
	stepPoll  = 100 * time.Millisecond
)

// step is something that a manager has to react to, and how to see that it has.
type step struct {
	name string // empty: it is not measured
	do   func(context.Context) error
	done func(context.Context) (bool, error) // nil: there is nothing to wait for, not even rest
}

// trial is a run whose arm is one manager or more.
type trial struct {
	*lab
	*measure.Run

	name    string // of the objects
	manager arm.Group
}

// newTrial returns a trial that is not started.
func (l *lab) newTrial(run *measure.Run) *trial {
	name := strings.Trim(fmt.Sprintf("%s-%s-%d", run.Case, run.Arm, run.Round), "-")
	return &trial{lab: l, Run: run, name: name}
}

// take starts managers with these flags, one for each list of them, and takes steps from their first rest.
func (t *trial) take(ctx context.Context, flags [][]string, steps []step) error {
	mark, err := t.plane.Audit().Mark()
	if err != nil {
		return err
	}
	if t.manager, err = arm.StartGroup(ctx, t.built, t.Arm, t.plane, flags); err != nil {
		return err
	}
	defer t.manager.Stop()
	beside, err := t.startFloor(ctx, mark)
	if err != nil {
		return err
	}
	err = t.manager.While(ctx, func(ctx context.Context) error {
		if _, err := t.manager.Rest(ctx, t.plane, mark); err != nil {
			return err
		}
		for _, s := range steps {
			if err := t.step(ctx, s); err != nil {
				return fmt.Errorf("step %q: %w", s.name, err)
			}
		}
		return nil
	})
	t.Figures["memory"] = t.manager.PeakMemory() / (1 << 20)
	t.manager.Stop()
	t.Figures["cpu"] = t.manager.CPU().Seconds()
	return beside.stop(t, err)
}

// step takes a step, waits until all is done and the manager is at rest, and counts.
func (t *trial) step(ctx context.Context, s step) error {
	mark, err := t.plane.Audit().Mark()
	if err != nil {
		return err
	}
	before, err := t.manager.CPUSeconds(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := s.do(ctx); err != nil {
		return err
	}
	events, took, err := t.finish(ctx, s, mark, start)
	if err != nil || s.name == "" {
		return err
	}
	after, err := t.manager.CPUSeconds(ctx)
	if err != nil {
		return err
	}
	t.Count(s.name, events)
	t.Figures[s.name+" s"], t.Figures[s.name+" cpu"] = took.Seconds(), after-before
	if first := firstDeletion(events); !first.IsZero() {
		t.Figures[s.name+" work"] = (took - first.Sub(start)).Seconds()
	}
	t.printf("step %s took %.1fs", s.name, took.Seconds())
	return nil
}

// finish waits for the end of a step, and returns the requests of the manager since its beginning, and how long it took.
func (t *trial) finish(ctx context.Context, s step, since cluster.AuditMark, start time.Time) (cluster.AuditEvents, time.Duration, error) {
	if s.done == nil {
		took := time.Since(start)
		events, err := t.plane.Audit().Since(since)
		return events.From(t.manager[0].Agent), took, err
	}
	if err := wait.PollUntilContextTimeout(ctx, stepPoll, stepLimit, true, s.done); err != nil {
		return nil, 0, fmt.Errorf("wait for its end: %w", err)
	}
	took := time.Since(start)
	events, err := t.manager.Rest(ctx, t.plane, since)
	return events, took, err
}

// firstDeletion is when the first deletion of a Machine was asked for.
func firstDeletion(events cluster.AuditEvents) (first time.Time) {
	for _, e := range events {
		if e.Verb == "delete" && e.Resource == "machines" && (first.IsZero() || e.Received.Before(first)) {
			first = e.Received
		}
	}
	return first
}

// heap is a step that measures the live heap after a garbage collection, in KiB.
func (t *trial) heap(when string) step {
	return step{do: func(ctx context.Context) error {
		bytes, err := t.manager.LiveHeap(ctx)
		t.Figures["heap "+when] = bytes / 1024
		return err
	}}
}
