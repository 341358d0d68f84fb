package guard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
)

// clusters is a fleet of Machines of so many clusters, behind one account whose calls are limited by a function.
func clusters(t *testing.T, n int, limit func(*fleet, provider.Request) error) (f *fleet, listed map[string]int) {
	t.Helper()
	listed = map[string]int{}
	f = newFleet(t, 0, func(f *fleet) {
		list, remove := f.options.Calls.List, f.options.Calls.Delete
		f.options.Calls.List = func(ctx context.Context, r provider.Request) ([]provider.Instance, error) {
			if err := limit(f, r); err != nil {
				return nil, err
			}
			listed[r.Cluster]++
			return list(ctx, r)
		}
		f.options.Calls.Delete = func(ctx context.Context, r provider.Request) (bool, error) {
			if err := limit(f, r); err != nil {
				return false, err
			}
			return remove(ctx, r)
		}
		for i := range n {
			u := testenv.Object(f.kind.GVK, fmt.Sprintf("of-%d", i))
			u.Object["spec"] = map[string]any{"clusterName": fmt.Sprintf("c%d", i)}
			f.Create(u)
		}
	})
	clear(listed)
	return f, listed
}

// A pass makes one call; those that have to wait come first in the next one, which is due when they may.
func TestAThrottledAccountIsAskedAgainUntilEachListIsComplete(t *testing.T) {
	t.Parallel()
	var next time.Time
	f, listed := clusters(t, 5, func(f *fleet, _ provider.Request) error {
		if now := f.clock.Now(); now.Before(next) {
			return &provider.Error{Class: provider.RateLimited, RetryAfter: next.Sub(now), Err: errors.New("a call a minute")}
		}
		next = f.clock.Now().Add(time.Minute)
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.c.Start(ctx) }()
	for range 4 {
		f.Eventually("the next pass to be due", func() string {
			if !f.clock.HasWaiters() {
				return "it is not"
			}
			return ""
		})
		f.clock.Step(time.Minute)
	}
	f.Eventually("all five to be listed within five minutes", func() string {
		if f.clock.HasWaiters() {
			return ""
		}
		return "the last pass has not ended"
	})
	f.clock.Step(guard.DefaultCollectorPeriod - time.Minute)
	require.True(t, f.clock.HasWaiters(), "each was listed in this period: those that had to wait again have no quick pass")
	cancel()
	require.NoError(t, <-ended)
	require.Len(t, listed, 5, "%v", listed)
}

func TestARateThatIsNotEnoughForAllClustersGivesEachItsTurn(t *testing.T) {
	t.Parallel()
	calls := 0
	f, listed := clusters(t, 2, func(*fleet, provider.Request) error {
		if calls++; calls%2 == 0 {
			return &provider.Error{Class: provider.RateLimited, RetryAfter: time.Hour, Err: errors.New("one list a pass")}
		}
		return nil
	})
	for range 4 {
		r, err := f.c.Pass(t.Context())
		require.NoError(t, err, "it is no failure")
		require.Contains(t, fmt.Sprint(r.Blocked), "one list a pass")
		f.clock.Step(time.Minute)
	}
	require.Len(t, listed, 2, "each cluster has its turn")
}
