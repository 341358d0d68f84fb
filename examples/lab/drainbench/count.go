package main

import (
	"time"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// trial is one drain and what has to be kept of it until it is counted.
type trial struct {
	*scene

	agent      string
	drainer    drainer
	standing   cluster.AuditEvents // the arm's requests while it was prepared
	mark       cluster.AuditMark   // where the audit log stood when the drain began
	start, end time.Time
	left       int // pods that were there when it was given up
}

// count makes the figures of a drain that has ended.
func (b *comparison) count(t *trial) (*figures, error) {
	during, err := b.plane.Audit().Since(t.mark)
	if err != nil {
		return nil, err
	}
	own := during.From(t.agent)
	f := &figures{Pods: t.nodes * t.pods, Left: t.left, WrongNode: t.seen.evictedElsewhere(t.drained())}
	end := t.end
	if keeper, ok := t.drainer.(timekeeper); ok {
		if ended := keeper.ended(own); !ended.IsZero() {
			end = ended
			own = own.Where(func(e cluster.AuditEvent) bool { return e.Received.Before(ended) })
		}
	}
	f.Wall = end.Sub(t.start).Seconds()
	if last := t.seen.lastGone(t.drained()); !last.IsZero() {
		f.PodsGone = last.Sub(t.start).Seconds()
	}
	f.fromEvents(t.standing, own, t.start)
	if !t.opened.IsZero() {
		if after, ok := reaction(during, own, t.name, t.opened); ok {
			f.Reaction = new(after.Seconds())
		}
	}
	return f, nil
}
