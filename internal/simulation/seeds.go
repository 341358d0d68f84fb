package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/machinist-dev/machinist/internal/engine"
)

// Seeds say which histories to run.
type Seeds struct {
	// From is the first seed, and Count is how many there are.
	From, Count uint64
	// Workers run side by side. Default: one for each processor.
	Workers int
	// Options are those of each history.
	Options Options
	// Needs are parts of the World, such as NeedsPods, and faults: a history without one of them is not run. A planted defect makes a
	// difference only where there is what it breaks.
	Needs []string
	// FailFast stops at the first broken invariant.
	FailFast bool
	// Progress receives a line for each broken invariant at once, and one about all histories now and then; nil prints nothing. Every is the
	// least time between two of the latter; default ten seconds. Two lines are never written at the same time.
	Progress io.Writer
	Every    time.Duration
}

// Report is what came of the histories.
type Report struct {
	// Histories ran, with Events lines in all.
	Histories, Events uint64
	// Skipped are the histories that were not run because they lack one of Seeds.Needs.
	Skipped uint64
	// Failed are the seeds with a broken invariant, in order, and First is the history of the first of them.
	Failed []Failure
	First  *BrokenError
	// Seen counts what happened: faults, pairs of faults in one history, reasons of conditions, and results of steps.
	Seen Coverage
	// Reasons are those of conditions that could have been seen. RunSeeds knows none: whoever prints the Report may set them.
	Reasons []string
}

// Failure is a seed with a broken invariant.
type Failure struct {
	Seed uint64
	// Broken names the invariant and says what is wrong.
	Broken string
}

// RunSeeds runs many histories. It stops when ctx ends, and then reports what ran. The error says that a world
// could not be made, or that no history can have one of the Needs.
func RunSeeds(ctx context.Context, s Seeds) (Report, error) {
	if err := checkNeeds(s.Needs); err != nil {
		return Report{}, err
	}
	s.Workers = cmp.Or(s.Workers, runtime.GOMAXPROCS(0))
	s.Every = cmp.Or(s.Every, 10*time.Second)
	var next atomic.Uint64
	next.Store(s.From)
	r := &running{Report: Report{Seen: Coverage{}}, begun: time.Now(), printed: time.Now(), of: s}
	var workers sync.WaitGroup
	for range s.Workers {
		workers.Go(func() {
			for ctx.Err() == nil && !(s.FailFast && r.hasFailed()) {
				seed := next.Add(1) - 1
				if seed >= s.From+s.Count {
					return
				}
				r.one(ctx, seed)
			}
		})
	}
	workers.Wait()
	r.line()
	slices.SortFunc(r.Failed, func(a, b Failure) int { return cmp.Compare(a.Seed, b.Seed) })
	return r.Report, r.err
}

// running is a Report that is being made.
type running struct {
	Report

	of             Seeds
	begun, printed time.Time
	mu             sync.Mutex
	first          uint64
	err            error
}

func (r *running) hasFailed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.First != nil
}

func (r *running) one(ctx context.Context, seed uint64) {
	w, err := run(ctx, Seeded(seed), r.of.Options, r.of.Needs)
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(err, errSkipped) {
		r.Skipped++
		return
	}
	if failure, broken := errors.AsType[*BrokenError](err); broken {
		if r.Failed = append(r.Failed, Failure{Seed: seed, Broken: failure.Error()}); r.First == nil || seed < r.first {
			r.First, r.first = failure, seed
		}
		r.say(r.Failed[len(r.Failed)-1])
	} else if err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("seed %d: %w", seed, err))
		return
	}
	r.Histories++
	r.Events += uint64(len(w.history.Events))
	r.Seen.add(w.seen)
	if time.Since(r.printed) >= r.of.Every {
		r.line()
	}
}

// maxFailureLine bounds the line about a broken invariant, in bytes: with what stands for the rest there are at most 300.
const maxFailureLine = 300 - len(" ...")

// say prints a broken invariant: a run may last for hours.
func (r *running) say(f Failure) {
	if r.of.Progress != nil {
		line := fmt.Sprintf("seed %d fails: %s", f.Seed, strings.Join(strings.Fields(f.Broken), " "))
		_, _ = fmt.Fprintln(r.of.Progress, engine.Bounded(line, maxFailureLine))
	}
}

// line prints how far the histories are.
func (r *running) line() {
	if r.of.Progress == nil {
		return
	}
	r.printed = time.Now()
	each := float64(r.Histories) / max(time.Since(r.begun).Seconds(), 0.001)
	_, _ = fmt.Fprintf(r.of.Progress, "%d of %d histories, %d failed, %.1f a second, %.1f a second and worker\n",
		r.Histories+r.Skipped, r.of.Count, len(r.Failed), each, each/float64(r.of.Workers))
}

// Shrunk returns a simpler history that breaks the same invariant, which takes up to tries histories.
func (f *BrokenError) Shrunk(ctx context.Context, o Options, tries int) *BrokenError {
	best := f
	Shrink(f.Choices, tries, func(candidate []uint32) bool {
		var failure *BrokenError
		if _, err := Run(ctx, Replayed(candidate), o); !errors.As(err, &failure) || failure.Invariant != f.Invariant {
			return false
		}
		best = failure
		return true
	})
	return best
}

// Parts of a World that a history may have, for Seeds.Needs.
const (
	NeedsPods        = "pods"
	NeedsHealthCheck = "health check"
	NeedsTemplates   = "templates"
	NeedsPool        = "pool"
	NeedsDeployment  = "deployment"
	NeedsCloudHabits = "cloud habits"
	NeedsProviders   = "providers"
)

func parts() []string {
	return []string{NeedsPods, NeedsHealthCheck, NeedsTemplates, NeedsPool, NeedsDeployment, NeedsCloudHabits, NeedsProviders}
}

// hasAll reports whether a World has all of some parts and faults at its beginning.
func (w *World) hasAll(needs []string) bool {
	has := map[string]bool{
		NeedsPods: w.apps != nil, NeedsHealthCheck: w.health != nil, NeedsTemplates: w.parts && w.pool == nil, NeedsPool: w.pool != nil,
		NeedsDeployment: slices.ContainsFunc(w.owners, (*owner).deploys), NeedsCloudHabits: w.habits != nil,
		NeedsProviders: w.provided != nil,
	}
	return !slices.ContainsFunc(needs, func(name string) bool { return !has[name] && !w.has(Fault(name)) })
}

// checkNeeds refuses what no history can have: nothing would be run.
func checkNeeds(needs []string) error {
	for _, name := range needs {
		if !slices.Contains(parts(), name) && !slices.Contains(AllFaults(), Fault(name)) {
			return fmt.Errorf("no history has %q: name a part of the World or a fault", name)
		}
	}
	return nil
}
