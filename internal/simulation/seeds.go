package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/rollout"
)

// Seeds are the histories to run.
type Seeds struct {
	// From is the first seed, Count is how many follow each other, and Also are others.
	From, Count uint64
	Also        []uint64
	// Options are those of each history.
	Options Options
	// Needs are traits of the World and faults: a history without one of them is not run. A planted defect makes a difference only where
	// there is what it breaks.
	Needs []string
	// FailFast stops at the first broken invariant.
	FailFast bool
	// Progress receives a line for each broken invariant at once, and one about all histories now and then; nil prints nothing.
	Progress io.Writer
}

// Report is what came of the histories.
type Report struct {
	// Histories ran, with Events lines in all. Unneeded are those that lack one of Seeds.Needs, and did not.
	Histories, Events, Unneeded uint64
	// Took is the time that all of them took.
	Took time.Duration
	// Failed are the broken invariants by seed.
	Failed map[uint64]string
	// Seen counts what happened.
	Seen Coverage
}

// RunSeeds runs many histories, one on each processor at a time. It stops when ctx ends, and then reports what ran. It fails if a
// World could not be made, or if no history can have one of the Needs.
func RunSeeds(ctx context.Context, s Seeds) (Report, error) {
	if err := checkNeeds(s.Needs); err != nil {
		return Report{}, err
	}
	r := &running{of: s, begun: time.Now(), printed: time.Now()}
	r.Failed, r.Seen = map[uint64]string{}, Coverage{}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed, is := r.next(ctx); is; seed, is = r.next(ctx) {
				r.one(ctx, seed)
			}
		})
	}
	workers.Wait()
	r.line()
	return r.Report, r.err
}

// running is a Report that is being made.
type running struct {
	Report

	of             Seeds
	begun, printed time.Time
	mu             sync.Mutex
	drawn          uint64
	err            error
}

// next returns the next seed; false after the last one.
func (r *running) next(ctx context.Context) (uint64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.drawn
	if r.drawn++; ctx.Err() != nil || r.of.FailFast && len(r.Failed) > 0 || n >= r.of.Count+uint64(len(r.of.Also)) {
		return 0, false
	}
	if n < r.of.Count {
		return r.of.From + n, true
	}
	return r.of.Also[n-r.of.Count], true
}

func (r *running) one(ctx context.Context, seed uint64) {
	w, err := run(ctx, Seeded(seed), r.of.Options, r.of.Needs)
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(err, errUnneeded) {
		r.Unneeded++
		return
	}
	if broken, is := errors.AsType[*BrokenError](err); is {
		r.breaks(seed, broken)
	} else if err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("seed %d: %w", seed, err))
		return
	}
	r.Histories++
	r.Events += uint64(len(w.history.Events))
	r.Seen.add(w)
	if time.Since(r.printed) >= 10*time.Second {
		r.line()
	}
}

// maxFailureLine bounds the line about a broken invariant, in bytes: with the mark for the rest there are at most 300.
const maxFailureLine = 300 - len(" ...")

// breaks prints a broken invariant at once: a run may last for hours.
func (r *running) breaks(seed uint64, broken *BrokenError) {
	r.Failed[seed] = broken.Error()
	if r.of.Progress != nil {
		line := fmt.Sprintf("seed %d fails: %s", seed, strings.Join(strings.Fields(broken.Error()), " "))
		_, _ = fmt.Fprintln(r.of.Progress, engine.Bounded(line, maxFailureLine))
	}
}

// line prints how far the histories are.
func (r *running) line() {
	r.printed, r.Took = time.Now(), time.Since(r.begun)
	if r.of.Progress != nil {
		_, _ = fmt.Fprintf(r.of.Progress, "%d of %d histories, %d failed, %.1f a second\n", r.Histories+r.Unneeded,
			r.of.Count+uint64(len(r.of.Also)), len(r.Failed), r.rate())
	}
}

// rate is how many histories ran in a second.
func (r *Report) rate() float64 { return float64(r.Histories) / max(r.Took.Seconds(), 0.001) }

// Shrunk returns a simpler history that breaks the same invariant as that of a seed, which takes up to tries histories.
func Shrunk(ctx context.Context, seed uint64, o Options, tries int) *BrokenError {
	var best *BrokenError
	breaks := func(choices *Choices) bool {
		_, err := Run(ctx, choices, o)
		broken, is := errors.AsType[*BrokenError](err)
		if is = is && (best == nil || broken.Invariant == best.Invariant); is {
			best = broken
		}
		return is
	}
	if breaks(Seeded(seed)) {
		shrink(best.Choices, tries, func(candidate []uint32) bool { return breaks(Replayed(candidate)) })
	}
	return best
}

// traits are what a World may have at its beginning, by the name for Seeds.Needs.
func (w *World) traits() map[string]bool {
	traits := map[string]bool{
		"pods": w.apps != nil, "health check": w.health != nil, "templates": w.parts && w.pool == nil, "pool": w.pool != nil,
		"deployment": slices.ContainsFunc(w.owners, (*owner).deploys), "cloud habits": w.habits != nil, "providers": w.provided != nil,
		"inframachine":   w.provided != nil && w.provided.driven,
		"two namespaces": slices.ContainsFunc(w.owners, func(o *owner) bool { return o.namespace == elsewhere }),
	}
	for _, s := range []rollout.Type{rollout.RollingUpdate, rollout.OnDelete, rollout.Recreate, rollout.InPlaceAuto, rollout.InPlaceManual} {
		traits[string(s)] = slices.ContainsFunc(w.owners, func(o *owner) bool { return o.strategy == s })
	}
	return traits
}

// hasAll reports whether a World has all of some traits and faults.
func (w *World) hasAll(needs []string) bool {
	traits := w.traits()
	return !slices.ContainsFunc(needs, func(name string) bool { return !traits[name] && !w.has(Fault(name)) })
}

// checkNeeds refuses what no history can have: nothing would be run.
func checkNeeds(needs []string) error {
	traits := (&World{}).traits()
	for _, name := range needs {
		if _, is := traits[name]; !is && !slices.Contains(AllFaults(), Fault(name)) {
			return fmt.Errorf("no history has %q: name a trait of the World or a fault", name)
		}
	}
	return nil
}
