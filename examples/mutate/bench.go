package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// verdict is the result of a mutant.
type verdict string

const (
	killed         verdict = "killed"
	killedByTime   verdict = "killed by timeout"
	survived       verdict = "survived"
	notReached     verdict = "not reached"
	leftOut        verdict = "left out"
	notTried       verdict = "not tried"
	progressEvery          = 20 * time.Second
	graceOfTimeout         = 10 * time.Second // a short test on a busy machine
	maxBatch               = 16
)

// bench tries the mutants of one package.
type bench struct {
	options  options
	pkg      goPackage
	folder   string
	progress io.Writer

	mu       sync.Mutex
	verdicts []verdict
	told     time.Time
}

func newBench(o options, p goPackage, folder string, progress io.Writer) *bench {
	return &bench{options: o, pkg: p, folder: folder, progress: progress}
}

// work creates the mutants, finds the tests that reach them, and runs these. It also reports partial results after a
// failure.
func (b *bench) work(ctx context.Context) (packageReport, error) {
	mutants, sources, err := choose(b.options, b.pkg)
	if err != nil || len(mutants) == 0 {
		return packageReport{}, err
	}
	temp := filepath.Join(b.folder, "temp")
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return packageReport{}, err
	}
	b.say("%d mutants: compiling", len(mutants))
	r := runner{build: &build{pkg: b.pkg, folder: b.folder, sources: sources, mutants: mutants, leftOut: map[int]bool{}}, temp: temp}
	b.verdicts = slices.Repeat([]verdict{notTried}, len(mutants))
	if err := r.compile(ctx); err != nil {
		return b.report(r, nil), err
	}
	b.say("running each test once")
	tests, err := r.tests(ctx, b.options.parallel)
	if err != nil {
		return b.report(r, tests), err
	}
	err = inParallel(ctx, b.options.parallel, len(mutants), func(ctx context.Context, i int) error {
		v, err := b.try(ctx, r, tests, i)
		b.note(i, v)
		return err
	})
	return b.report(r, tests), err
}

// try runs the tests that reach a mutant until one fails: first the quickest ones alone, and then more and more of them
// in parallel.
func (b *bench) try(ctx context.Context, r runner, tests []test, mutant int) (verdict, error) {
	if r.leftOut[mutant] {
		return leftOut, nil
	}
	left := slices.DeleteFunc(slices.Clone(tests), func(t test) bool { return t.outcome != passed || !slices.Contains(t.reaches, mutant) })
	if len(left) == 0 {
		return notReached, nil
	}
	for size := 1; len(left) > 0; size = min(2*size, maxBatch) {
		batch := left[:min(size, len(left))]
		left = left[len(batch):]
		// Tests that do not wait beside each other take as long as all of them.
		var all, longest time.Duration
		var names []string
		for _, t := range batch {
			all, longest, names = all+t.took, max(longest, t.took), append(names, t.name)
		}
		limit := graceOfTimeout + all - longest + time.Duration(b.options.timeout*float64(longest))
		result, err := r.run(ctx, names, mutant, "", limit)
		switch {
		case err != nil:
			return notTried, err
		case result == failed:
			return killed, nil
		case result == timedOut:
			return killedByTime, nil
		}
	}
	return survived, nil
}

func (b *bench) note(i int, v verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.verdicts[i] = v
	if time.Since(b.told) > progressEvery {
		tried := len(b.verdicts) - count(b.verdicts, notTried)
		b.say("%d of %d, %d survived so far", tried, len(b.verdicts), count(b.verdicts, survived))
		b.told = time.Now()
	}
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "mutate: %s: %s\n", b.pkg.ImportPath, fmt.Sprintf(format, args...))
}

func (b *bench) report(r runner, tests []test) packageReport {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := packageReport{Package: b.pkg.ImportPath, Survivors: []survivor{}}
	for _, t := range tests {
		if t.outcome == failed || t.outcome == timedOut {
			p.FailingTests = append(p.FailingTests, t.name)
		}
	}
	for i, v := range b.verdicts {
		m := r.mutants[i]
		if v == survived || v == notReached {
			p.Survivors = append(p.Survivors, survivor{
				File: filepath.Join(b.pkg.Dir, m.file), Line: m.line, Kind: m.kind, Change: m.change, Verdict: v,
			})
		}
	}
	p.count(b.verdicts)
	return p
}
