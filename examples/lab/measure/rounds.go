package measure

import (
	"context"
	"runtime"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Host describes the computer of a measurement; times are comparable only on the same one.
type Host struct {
	CPUs int    `json:"cpus"`
	OS   string `json:"os"`
	Go   string `json:"go"`
}

// ThisHost is the computer that this process runs on.
func ThisHost() Host {
	return Host{CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
}

// InTurn rotates the arms by round, so that each arm starts first in some rounds. arms is not changed; rounds count
// from 0.
func InTurn[T any](arms []T, round int) []T {
	first := round % max(1, len(arms))
	return slices.Concat(arms[first:], arms[:first])
}

// Median is the middle value, the mean of the two in the middle of an even number, and 0 of none. values are not changed.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// requesters is how many requests InParallel sends at once.
const requesters = 8

// InParallel calls f for 0 to n-1, a few at a time, and returns the first error it got, or why ctx ended.
func InParallel(ctx context.Context, n int, f func(int) error) error {
	errs := make(chan error, n)
	workqueue.ParallelizeUntil(ctx, requesters, n, func(i int) { errs <- f(i) })
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// Sleep waits, and returns why ctx has ended if that comes first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
