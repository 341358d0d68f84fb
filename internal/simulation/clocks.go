package simulation

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// ClockJumps means that a process starts again with a clock that is hours ahead or behind, or right again. A clock that is set while a
// process runs does not concern what the process remembers: the times of Go have a monotonic part, which those of a World have not. It
// concerns what is recorded in objects, and that a start has too.
const ClockJumps Fault = "clock jumps"

// skewed is the clock of a process, with the timers of the World, which are not used.
type skewed struct {
	clock.WithTicker

	process *process
}

func (p *process) clock() skewed { return skewed{p.world.clock, p} }

// Now implements clock.PassiveClock.
func (s skewed) Now() time.Time { return s.process.world.Now().Add(s.process.skew) }

// Since implements clock.PassiveClock.
func (s skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

func (w *World) skews(context.Context) {
	p := oneOf(w, w.processes...)
	skew := time.Duration(w.choices.pick(7)-3) * 20 * time.Second
	w.note(p.name, "has its clock off by "+skew.String(), "")
	w.setClock(p, skew)
}

// mostSkew is how far a clock may be off that is not set by hours.
const mostSkew = time.Minute

// setClock sets the clock of a process, which starts anew when that was far off: what it remembers is by the clock of before.
func (w *World) setClock(p *process, skew time.Duration) {
	far := p.skew.Abs() > mostSkew
	if p.skew = skew; far {
		w.startAnew(p)
	}
}

func (w *World) clockJumps(context.Context) {
	p := oneOf(w, w.processes...)
	p.skew = oneOf(w, 5*time.Hour, -5*time.Hour, 40*time.Minute, -40*time.Minute, 0)
	w.far = max(w.far, p.skew.Abs())
	w.note(p.name, "starts again with its clock off by "+p.skew.String(), "")
	w.startAnew(p)
}

// startAnew starts a process again, at the latest when its pass is over.
func (w *World) startAnew(p *process) {
	if p.busy {
		p.crashed = true
		return
	}
	w.fail("a process starts", p.start(w.ctx))
}
