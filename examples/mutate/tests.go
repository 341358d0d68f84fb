package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// outcome is the result of a test.
type outcome string

const (
	passed   outcome = "passed"
	failed   outcome = "failed"
	timedOut outcome = "timed out"
)

// test is one top-level test and its behaviour without a mutant.
type test struct {
	name    string
	took    time.Duration
	reaches []int
	outcome outcome
}

// runner runs tests of a binary in the folder of their package.
type runner struct {
	*build

	// temp is the folder for temporary files of tests, because a killed test does not delete them.
	temp string
}

// run runs tests, with a mutant unless its number is negative, and ends with the first failure.
func (r runner) run(ctx context.Context, tests []string, mutant int, reached string, limit time.Duration) (outcome, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	binary, err := filepath.Abs(r.binary())
	if err != nil {
		return "", err
	}
	quoted := make([]string, 0, len(tests))
	for _, name := range tests {
		quoted = append(quoted, regexp.QuoteMeta(name))
	}
	// Tests that wait run in parallel. If this program is killed, the binary ends by its timeout.
	cmd := exec.CommandContext(limited, binary, "-test.run=^("+strings.Join(quoted, "|")+")$", "-test.parallel=8", "-test.failfast",
		//nolint:gosec // built above
		fmt.Sprintf("-test.timeout=%s", limit+time.Minute))
	cmd.Dir = r.pkg.Dir
	cmd.Env = append(os.Environ(), "TMPDIR="+r.temp, envReached+"="+reached, envMutant+"="+strconv.Itoa(mutant))
	cmd.WaitDelay = time.Second
	failure := &failureWatch{stop: cancel}
	cmd.Stdout = failure
	err = cmd.Run()
	_, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case failure.seen:
		return failed, nil
	case err != nil && limited.Err() != nil:
		return timedOut, nil
	case exited:
		return failed, nil
	case err != nil:
		return "", err
	}
	return passed, nil
}

// failureWatch stops a test binary after its first failed test, because others may wait for minutes.
type failureWatch struct {
	stop func()
	last []byte
	seen bool
}

func (w *failureWatch) Write(p []byte) (int, error) {
	w.last = append(w.last, p...)
	if bytes.Contains(w.last, []byte("--- FAIL: ")) {
		w.seen = true
		w.stop()
	}
	w.last = w.last[max(0, len(w.last)-len("--- FAIL: ")):]
	return len(p), nil
}

// normally limits a test without a mutant.
const normally = 5 * time.Minute

// tests runs every test once without a mutant, and records its duration and the mutants that it reaches. Quick tests
// come first.
func (r runner) tests(ctx context.Context, parallel int) ([]test, error) {
	cmd := exec.CommandContext(ctx, r.binary(), "-test.list=.") //nolint:gosec // built above
	cmd.Dir = r.pkg.Dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the tests cannot be listed: %w", err)
	}
	var all []test
	for name := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(name, "Benchmark") {
			all = append(all, test{name: name})
		}
	}
	err = inParallel(ctx, parallel, len(all), func(ctx context.Context, i int) (err error) {
		all[i], err = r.alone(ctx, i, all[i])
		return err
	})
	slices.SortStableFunc(all, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	return all, err
}

// alone runs a test without a mutant.
func (r runner) alone(ctx context.Context, i int, t test) (test, error) {
	reached := filepath.Join(r.folder, fmt.Sprintf("reached-%d", i))
	begun := time.Now()
	var err error
	if t.outcome, err = r.run(ctx, []string{t.name}, -1, reached, normally); err != nil {
		return t, err
	}
	t.took = time.Since(begun)
	content, err := os.ReadFile(reached)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return t, err
	}
	for line := range bytes.FieldsSeq(content) {
		number, err := strconv.Atoi(string(line))
		if err != nil {
			return t, fmt.Errorf("what %s reaches cannot be read: %w", t.name, err)
		}
		t.reaches = append(t.reaches, number)
	}
	return t, nil
}

// inParallel calls do for 0 to n-1, some of them at the same time, and stops at the first error.
func inParallel(ctx context.Context, parallel, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}
