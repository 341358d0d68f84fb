package fake_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/provider"
)

func TestADriverGetsTheHabitsOfACloud(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Unix(1000, 0))
	driver := fake.NewDriver(fake.DriverOptions{Clock: now})
	calls := provider.Of(driver, fake.Unreliable(fake.UnreliableOptions{
		Boot: time.Minute, Hidden: 10 * time.Second, Vanish: 5 * time.Second, Quota: 1, Clock: now,
	}))
	ctx := t.Context()
	r := provider.Request{Token: "t1", Name: "m1", Cluster: "c1", Spec: []byte(`{"size":"small"}`)}
	require.NoError(t, calls.Validate(ctx, r))
	made, err := calls.Create(ctx, r)
	require.NoError(t, err)
	require.Equal(t, provider.Creating, made.State, "it boots, although the driver is done")
	_, err = calls.Get(ctx, r)
	require.Equal(t, provider.NotFound, provider.ClassOf(err), "it is seen late")
	gone, err := calls.Delete(ctx, r)
	require.NoError(t, err)
	require.True(t, gone, "so it is not there to be deleted")
	all, err := calls.List(ctx, r)
	require.NoError(t, err)
	require.Empty(t, all)
	again, err := calls.Create(ctx, r)
	require.NoError(t, err, "one that exists needs no room")
	require.Equal(t, made.ProviderID, again.ProviderID)
	other := r
	other.Token = "t2"
	_, err = calls.Create(ctx, other)
	require.Equal(t, provider.Exhausted, provider.ClassOf(err))

	now.Step(time.Minute)
	seen, err := calls.Get(ctx, r)
	require.NoError(t, err)
	require.Equal(t, provider.Running, seen.State)
	gone, err = calls.Delete(ctx, r)
	require.NoError(t, err)
	require.False(t, gone)
	all, err = calls.List(ctx, r)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, provider.Deleting, all[0].State)
	require.Zero(t, driver.Calls(provider.OpDelete), "the driver is called when the time has come")
	now.Step(5 * time.Second)
	gone, err = calls.Delete(ctx, r)
	require.NoError(t, err)
	require.True(t, gone)
	require.Equal(t, 1, driver.Calls(provider.OpDelete))
	gone, err = calls.Delete(ctx, r)
	require.NoError(t, err)
	require.True(t, gone, "what does not exist is gone")
	_, err = calls.Create(ctx, other)
	require.NoError(t, err)
}

func TestADriverGetsALimitALatencyAndLostAnswers(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Unix(1000, 0))
	driver := fake.NewDriver(fake.DriverOptions{Clock: now})
	calls := provider.Of(driver, fake.Unreliable(fake.UnreliableOptions{PerSecond: 3, Answer: fake.LoseEvery(2), Clock: now}))
	r := provider.Request{Token: "t1", Name: "m1", Spec: []byte(`{"size":"small"}`)}
	_, err := calls.Create(t.Context(), r)
	require.NoError(t, err)
	_, err = calls.Get(t.Context(), r)
	require.Equal(t, provider.Unavailable, provider.ClassOf(err))
	require.ErrorContains(t, err, "the answer to get was lost")
	_, err = calls.Get(t.Context(), r)
	require.NoError(t, err)
	_, err = calls.Get(t.Context(), r)
	require.Equal(t, provider.RateLimited, provider.ClassOf(err))
	require.NoError(t, fake.LoseEvery(0)(provider.OpGet, r))

	synctest.Test(t, func(t *testing.T) {
		slow, began := provider.Of(driver, fake.Unreliable(fake.UnreliableOptions{Latency: time.Second})), time.Now()
		_, err := slow.Get(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = slow.Get(ended, r)
		require.ErrorIs(t, err, context.Canceled)
	})
}
