package simulation

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// stalls are how long a watch shows nothing.
func stalls() []time.Duration { return []time.Duration{time.Minute, 20 * time.Second, 5 * time.Minute} }

// watchStalls stops one watch of a process for minutes. A cache that lists again, and a process that starts, have a new watch.
func (w *World) watchStalls(ctx context.Context) {
	p, gvk := w.processes[w.choices.pick(len(w.processes))], w.served[w.choices.pick(len(w.served))]
	if w.choices.pick(2) == 1 {
		gvk = w.served[len(w.served)-1] // Nodes decide about drains and remediations
	}
	d := stalls()[w.choices.pick(len(stalls()))]
	w.stall(p, gvk.GroupKind(), d)
	w.behind(ctx, d)
}

func (w *World) stall(p *process, kind schema.GroupKind, d time.Duration) {
	p.view.kinds[kind].stalled = w.Now().Add(d)
	w.note(p.name, "sees no "+kind.Kind+" for "+d.String(), "")
}

// behind is the time of a stall, in which all who can act do, and something happens in the middle or at the beginning: that a process does
// not see what it is about to judge is rare in a short history.
func (w *World) behind(ctx context.Context, d time.Duration) {
	among := slices.DeleteFunc([]Fault{KubeletReturns, UserDeletes, UserStrips}, func(f Fault) bool { return !w.has(f) })
	if w.nested > 0 || len(among) == 0 || w.choices.pick(2) == 0 {
		return
	}
	wait := func() { w.until(ctx, "", d/2, func() string { return "time" }) }
	if w.choices.pick(2) == 1 {
		wait()
	}
	w.happens(ctx, oneOf(w, among...))
	wait()
}
