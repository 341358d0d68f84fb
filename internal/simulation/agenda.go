package simulation

import (
	"context"
	"time"
)

// due is what happens at a time.
type due struct {
	at time.Time
	do func()
}

// agenda is an actor for which each thing has its time.
type agenda func(context.Context, *World) []due

func (a agenda) can(ctx context.Context, w *World) []func() {
	var all []func()
	for _, d := range a(ctx, w) {
		if !w.Now().Before(d.at) {
			all = append(all, d.do)
		}
	}
	return all
}

func (a agenda) next(w *World) time.Time {
	var times []time.Time
	for _, d := range a(w.ctx, w) {
		times = append(times, d.at)
	}
	return soonest(w, times...)
}
