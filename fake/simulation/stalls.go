package simulation

import (
	"context"
	"time"
)

// stalls are how long a watch shows nothing.
func stalls() []time.Duration { return []time.Duration{time.Minute, 20 * time.Second, 5 * time.Minute} }

// watchStalls lets one kind of a process be behind by minutes. A cache that lists again, and a process that starts, have a new watch.
func (w *World) watchStalls(context.Context) {
	p, gvk := w.processes[w.choices.pick(len(w.processes))], w.served[w.choices.pick(len(w.served))]
	d := stalls()[w.choices.pick(len(stalls()))]
	p.view.kinds[gvk.GroupKind()].stalled = w.Now().Add(d)
	w.note(p.name, "sees no "+gvk.Kind+" for "+d.String(), "")
}

// watchesGoOn ends all that.
func (w *World) watchesGoOn() {
	for _, p := range w.processes {
		for _, k := range p.view.kinds {
			k.stalled = time.Time{}
		}
	}
}

// comes reports whether a process can see an event of a kind now.
func (w *World) comes(k *viewed) bool { return len(k.pending) > 0 && !w.Now().Before(k.stalled) }
