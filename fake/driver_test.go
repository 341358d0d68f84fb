package fake_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/provider"
)

func TestACloudInMemoryHasTheHabitsThatItIsGiven(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	d := fake.NewDriver(fake.DriverOptions{
		Boot: time.Minute, Hidden: 10 * time.Second, Vanish: 5 * time.Second, Quota: 1, Token: "right", Clock: now,
	})
	ctx := t.Context()
	r := provider.Request{
		Token: "t1", Name: "m1", Cluster: "c1", Spec: []byte(`{"size":"small"}`), UserData: []byte("hello"),
		Credentials: func(context.Context) (provider.Values, error) { return provider.Values{"token": []byte("right")}, nil },
	}
	made, err := d.Create(ctx, r)
	require.NoError(t, err)
	require.Equal(t, provider.Creating, made.State)
	require.Equal(t, "hello", d.UserData("t1"))
	_, err = d.Get(ctx, r)
	require.Equal(t, provider.NotFound, provider.ClassOf(err), "it is seen late")
	gone, err := d.Delete(ctx, r)
	require.NoError(t, err)
	require.True(t, gone, "so it is not there to be deleted")
	other := r
	other.Token = "t2"
	_, err = d.Create(ctx, other)
	require.Equal(t, provider.Exhausted, provider.ClassOf(err))
	now.SetTime(now.Now().Add(time.Minute))
	seen, err := d.Get(ctx, r)
	require.NoError(t, err)
	require.Equal(t, provider.Running, seen.State)
	wrong := r
	wrong.Credentials = nil
	_, err = d.Get(ctx, wrong)
	require.Equal(t, provider.Unauthenticated, provider.ClassOf(err))

	gone, err = d.Delete(ctx, r)
	require.NoError(t, err)
	require.False(t, gone)
	seen, err = d.Get(ctx, r)
	require.NoError(t, err)
	require.Equal(t, provider.Deleting, seen.State)
	now.SetTime(now.Now().Add(5 * time.Second))
	gone, err = d.Delete(ctx, r)
	require.NoError(t, err)
	require.True(t, gone)
	require.Equal(t, 1, d.Made("t1"))
	require.Equal(t, 3, d.Calls(provider.OpDelete))

	_, err = d.Create(ctx, other)
	require.NoError(t, err)
	require.True(t, d.Lose("t2"))
	require.False(t, d.Lose("t2"))
	require.Empty(t, d.UserData("t2"))
}

func TestACloudInMemoryRefusesCallsPastItsRate(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	d := fake.NewDriver(fake.DriverOptions{PerSecond: 2, Clock: now})
	for range 2 {
		_, err := d.List(t.Context(), provider.Request{})
		require.NoError(t, err)
	}
	_, err := d.List(t.Context(), provider.Request{})
	require.Equal(t, provider.RateLimited, provider.ClassOf(err))
	now.SetTime(now.Now().Add(time.Second / 2))
	_, err = d.List(t.Context(), provider.Request{})
	require.NoError(t, err)
}
