package instance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine/provider"
)

// The Machine is deleted after its instance was made and before that was recorded. Meanwhile the Node may have joined.
func TestADeletionFindsTheInstanceThatNoProviderIDNames(t *testing.T) {
	t.Parallel()
	c, in := newCloud(t, fake.DriverOptions{}), small("1", "one")
	_, err := c.keeper.Ensure(t.Context(), in) // and the process dies
	require.NoError(t, err)
	in.Deleting = true
	found := c.ensure(&in)
	require.True(t, found.Adopt && found.Keep, "%+v", found)
	require.Equal(t, "fake://1", in.Request.ProviderID)
	require.True(t, c.keeper.Remove(t.Context(), in).Gone)
	require.Equal(t, 1, c.Made("1"))
}

// A provider that does not answer, and then misses an instance once, has not missed it three times.
func TestAnErrorThatSaysNothingIsNoMissedInstance(t *testing.T) {
	t.Parallel()
	var failure error
	c, in := keeperOf(t, &failure), small("1", "one")
	require.False(t, c.ensure(&in).Gone)
	require.True(t, c.ensure(&in).Provisioned)
	failure = provider.Errorf(provider.Unavailable, "timeout")
	for range 5 {
		require.False(t, c.ensure(&in).Gone)
		c.passes(10 * time.Minute)
	}
	failure = provider.Errorf(provider.NotFound, "stale")
	for range 2 {
		require.False(t, c.ensure(&in).Gone)
		c.passes(10 * time.Minute)
	}
	require.True(t, c.ensure(&in).Gone)
}

// keeperOf returns a Keeper whose looks at an instance return an error while there is one.
func keeperOf(t *testing.T, failure *error) *cloud {
	t.Helper()
	return newCloud(t, fake.DriverOptions{}, func(c provider.Calls) provider.Calls {
		get := c.Get
		c.Get = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
			if *failure != nil {
				return provider.Instance{}, *failure
			}
			return get(ctx, r)
		}
		return c
	})
}

func TestLook(t *testing.T) {
	t.Parallel()
	t.Run("an instance that is lost is given up although its credentials are others at each read", func(t *testing.T) {
		t.Parallel()
		var failure error
		c, in, read := keeperOf(t, &failure), small("1", "one"), 0
		in.Request.Credentials = func(context.Context) (provider.Values, error) {
			read++
			return provider.Values{"token": fmt.Append(nil, read)}, nil
		}
		c.ensure(&in)
		require.True(t, c.ensure(&in).Provisioned)
		failure = provider.Errorf(provider.NotFound, "lost")
		first := c.ensure(&in)
		require.False(t, first.Gone)
		c.passes(first.RequeueAfter)
		second := c.ensure(&in)
		require.Less(t, first.RequeueAfter, second.RequeueAfter, "the pauses grow")
		c.passes(second.RequeueAfter)
		require.True(t, c.ensure(&in).Gone)
	})
	t.Run("an instance of a Machine in deletion is looked for with the defaults of the Driver", func(t *testing.T) {
		t.Parallel()
		c, in := newCloud(t, fake.DriverOptions{}, func(c provider.Calls) provider.Calls {
			get := c.Get
			c.AddDefaults = func(json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{"size":"small","zone":"a"}`), nil
			}
			c.Get = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
				if string(r.Spec) != `{"size":"small","zone":"a"}` {
					return provider.Instance{}, provider.Errorf(provider.NotFound, "no instance in %s", r.Spec)
				}
				return get(ctx, r)
			}
			return c
		}), small("1", "one")
		_, err := c.keeper.Ensure(t.Context(), in) // and the process dies
		require.NoError(t, err)
		in.Deleting, in.Err = true, provider.Errorf(provider.Invalid, "the class is gone")
		found := c.ensure(&in)
		require.True(t, found.Adopt, "%+v", found)
	})
	t.Run("an instance that the provider calls failed is looked at again, and runs when it is repaired", func(t *testing.T) {
		t.Parallel()
		failed := true
		c, in := newCloud(t, fake.DriverOptions{}, func(c provider.Calls) provider.Calls {
			get := c.Get
			c.Get = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
				i, err := get(ctx, r)
				if failed {
					i.State, i.Message = provider.Failed, "no quota"
				}
				return i, err
			}
			return c
		}), small("1", "one")
		c.ensure(&in)
		for range 2 {
			found := c.ensure(&in)
			require.Equal(t, instance.ReasonFailed, found.FailureReason)
			require.Contains(t, found.Message, "delete the Machine, or repair the instance: no quota")
			require.Equal(t, 10*time.Minute, found.RequeueAfter)
			c.passes(found.RequeueAfter)
		}
		failed = false
		require.True(t, c.ensure(&in).Provisioned)
	})
	t.Run("a refusal that lasts says what to do, and an instance that is being created is seen to run afterwards", func(t *testing.T) {
		t.Parallel()
		var failure error
		c, in := keeperOf(t, &failure), small("1", "one")
		c.ensure(&in)
		failure = provider.Errorf(provider.Invalid, "no such region")
		refused := c.ensure(&in)
		require.Equal(t, metav1.ConditionUnknown, refused.Status)
		require.Contains(t, refused.Message, "no such region; the instance may run all the same")
		require.InDelta(t, 10, refused.RequeueAfter.Minutes(), 1)
		failure = nil
		c.passes(refused.RequeueAfter)
		require.True(t, c.ensure(&in).Provisioned)
	})
	for _, class := range []provider.Class{provider.Invalid, provider.Terminal, provider.Unauthenticated} {
		t.Run(fmt.Sprintf("an error of the class %s does not end the looks at an instance that runs", class), func(t *testing.T) {
			t.Parallel()
			var failure error
			c, in := keeperOf(t, &failure), small("1", "one")
			c.ensure(&in)
			require.True(t, c.ensure(&in).Provisioned)
			failure = provider.Errorf(class, "no")
			again := c.ensure(&in).RequeueAfter
			require.Positive(t, again)
			require.LessOrEqual(t, again, 11*time.Minute)
			failure = nil
			c.passes(again)
			require.True(t, c.ensure(&in).Provisioned)
		})
	}
}

// A leader whose creation was refused until the specification changes comes back after another one, whose attempt was accepted.
func TestARefusalToCreateHoldsNoLookAtTheInstanceThatAnotherProcessMade(t *testing.T) {
	t.Parallel()
	refuses := true
	c, in := newCloud(t, fake.DriverOptions{}, func(c provider.Calls) provider.Calls {
		create := c.Create
		c.Create = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
			if refuses {
				return provider.Instance{}, provider.Errorf(provider.Terminal, "no")
			}
			return create(ctx, r)
		}
		return c
	}), small("1", "one")
	require.Equal(t, string(provider.Terminal), c.ensure(&in).Reason)
	refuses = false
	require.False(t, c.ensure(&in).Adopt, "the refusal holds")
	made, err := c.Create(t.Context(), in.Request)
	require.NoError(t, err)
	in.Request.ProviderID, in.Provisioned = made.ProviderID, true
	found := c.ensure(&in)
	require.True(t, found.Provisioned, "%+v", found)
	require.Equal(t, instance.DefaultRefresh, found.RequeueAfter)
}

// What a look could not see may run, and have a Node with pods.
func TestADeletionWaitsUntilItIsKnownWhetherThereIsAnInstance(t *testing.T) {
	t.Parallel()
	var failure error
	half, said := false, provider.Running
	looks := func(c provider.Calls) provider.Calls {
		get := c.Get
		c.Get = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
			if failure != nil {
				return provider.Instance{}, failure
			}
			i, err := get(ctx, r)
			if half {
				i.ProviderID, i.State = "", said
			}
			return i, err
		}
		return c
	}
	c, in := newCloud(t, fake.DriverOptions{}, looks), small("1", "one")
	_, err := c.keeper.Ensure(t.Context(), in) // and the process dies
	require.NoError(t, err)
	in.Deleting = true
	failure = provider.Errorf(provider.RateLimited, "429")
	found := c.ensure(&in)
	require.Contains(t, found.Unread, "429")
	require.Positive(t, found.RequeueAfter)
	calls := c.calls()
	require.Contains(t, c.ensure(&in).Unread, "429", "it is not due yet")
	require.Equal(t, calls, c.calls())
	failure, half = nil, true
	c.passes(time.Minute)
	for _, said = range []provider.State{provider.Running, provider.Stopped, ""} {
		require.Contains(t, c.ensure(&in).Unread, "has no provider ID", "state %q", said)
		c.passes(time.Minute)
	}
	for _, said = range []provider.State{provider.Creating, provider.Deleting, provider.Failed} {
		require.Empty(t, c.ensure(&in).Unread, "state %q: it has no Node that has to be drained", said)
		c.passes(time.Minute)
	}
	half = false
	c.passes(time.Minute)
	found = c.ensure(&in)
	require.True(t, found.Adopt)
	require.Empty(t, found.Unread)

	in.Request.ProviderID, failure = "", errors.New("no connection")
	looksUntilGivenUp := 0
	for c.ensure(&in).Unread != "" {
		c.passes(10 * time.Minute)
		looksUntilGivenUp++
		require.Less(t, looksUntilGivenUp, 20, "a deletion does not wait for ever")
	}
	require.Positive(t, looksUntilGivenUp)
}

// Credentials are mended while the Machine is being deleted, and nothing that a look depends on changes with them.
func TestARefusedLookIsMadeAgain(t *testing.T) {
	t.Parallel()
	d := fake.NewDriver(fake.DriverOptions{Token: "right"})
	keeper, err := instance.NewKeeper(instance.Options{
		Calls: provider.Of(d), Backoff: provider.Backoff{provider.Unauthenticated: {Max: 10 * time.Minute}},
	})
	require.NoError(t, err)
	in := small("1", "one")
	in.Now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	in.Deleting = true
	found, err := keeper.Ensure(t.Context(), in)
	require.NoError(t, err)
	require.NotEmpty(t, found.Unread)
	require.GreaterOrEqual(t, found.RequeueAfter, 10*time.Minute)
	in.Request.Credentials = func(context.Context) (provider.Values, error) { return provider.Values{"token": []byte("right")}, nil }
	in.Now = in.Now.Add(found.RequeueAfter)
	found, err = keeper.Ensure(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, found.Unread)
}
