package instance_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine/provider"
)

// removed makes the passes of a deletion that no provider ID helps, until the instance is gone, and returns how long that took and the
// messages on the way.
func (c *cloud) removed(in *instance.Input) (took time.Duration, messages []string) {
	c.t.Helper()
	in.Deleting = true
	start := c.clock.Now()
	for range 50 {
		require.Empty(c.t, c.ensure(in).Unread)
		removal := c.keeper.Remove(c.t.Context(), *in)
		if removal.Gone {
			return c.clock.Now().Sub(start), messages
		}
		require.Positive(c.t, removal.RequeueAfter)
		messages = append(messages, removal.Message)
		c.passes(removal.RequeueAfter)
	}
	require.Fail(c.t, "a deletion has an end", "%v", messages)
	return 0, nil
}

// Driver.Create waits until the new instance can be seen, and its deadline passes first.
func TestAnInstanceThatIsSeenLateIsNotLeftBehindByADeletion(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{
		"the answer was lost":                 errors.New("deadline exceeded"),
		"the answer could not be written":     nil,
		"the driver did not see the instance": provider.Errorf(provider.NotFound, "not seen"),
	} {
		c := newCloud(t, fake.DriverOptions{Hidden: 30 * time.Second, Answer: func(op provider.Operation, _ provider.Request) error {
			if op == provider.OpCreate {
				return answer
			}
			return nil
		}})
		in := small("1", "one")
		in.Now = c.clock.Now()
		_, err := c.keeper.Ensure(t.Context(), in)
		require.NoError(t, err, name)
		require.Equal(t, 1, c.Made("1"), name)
		took, messages := c.removed(&in)
		require.Contains(t, messages[0], "fake: no instance is found yet, and one may have been made", name)
		require.GreaterOrEqual(t, took, 30*time.Second, name)
		require.Less(t, took, time.Minute, "once it is seen, nothing is waited for: %s", name)
		require.False(t, c.Lose("1"), name)
	}
}

// Another process made the instance a moment ago, and died. The Machine may be much older, and this process too.
func TestAProcessThatMadeNothingLooksSeveralTimesForTheInstance(t *testing.T) {
	t.Parallel()
	for _, works := range []time.Duration{0, time.Hour} {
		c, in := newCloud(t, fake.DriverOptions{Hidden: 30 * time.Second}), small("1", "one")
		other := small("2", "one")
		c.ensure(&other)
		c.passes(works)
		_, err := c.Create(t.Context(), in.Request)
		require.NoError(t, err)
		took, _ := c.removed(&in)
		require.Positive(t, took, works)
		require.False(t, c.Lose("1"), works)
	}
}

func TestTheWaitForAnInstanceThatIsNeverSeenEnds(t *testing.T) {
	t.Parallel()
	failure := errors.New("no connection")
	c := newCloud(t, fake.DriverOptions{}, provider.Around(
		func(ctx context.Context, op provider.Operation, _ *provider.Request, call func(context.Context) error) error {
			if op == provider.OpCreate {
				return failure // nothing is made
			}
			return call(ctx)
		}))
	in := small("1", "one")
	c.ensure(&in)
	took, messages := c.removed(&in)
	require.Greater(t, took, time.Minute)
	require.Less(t, took, 2*time.Minute)
	require.Len(t, messages, 4)
	require.Contains(t, messages[3], "4 of 5")
	took, _ = c.removed(&in)
	require.Zero(t, took, "what is gone stays gone, while other objects of the Machine are waited for")
}

// Another process made the instance, and died before it stored its provider ID. What this one was answered proves nothing about that.
func TestARefusalIsNoProofThatAnotherProcessMadeNothing(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"refused":                   provider.Errorf(provider.Invalid, "size"),
		"no room":                   provider.Errorf(provider.Exhausted, "quota"), // which the instance uses up
		"the credentials are wrong": provider.Errorf(provider.Unauthenticated, "401"),
		"it was not its turn":       &provider.Error{Class: provider.Unavailable, Delayed: true, RetryAfter: time.Second},
	} {
		c := newCloud(t, fake.DriverOptions{Hidden: 30 * time.Second}, provider.Around(
			func(ctx context.Context, op provider.Operation, _ *provider.Request, call func(context.Context) error) error {
				if op == provider.OpCreate {
					return refusal
				}
				return call(ctx)
			}))
		in := small("1", "one")
		_, err := c.Create(t.Context(), in.Request)
		require.NoError(t, err, name)
		c.ensure(&in)
		took, _ := c.removed(&in)
		require.Positive(t, took, name)
		require.False(t, c.Lose("1"), name)
	}
}

// The first creation was accepted, and its answer was lost. The second one was refused before the cloud looked for the first.
func TestARefusalDoesNotSayThatAnEarlierCreationMadeNothing(t *testing.T) {
	t.Parallel()
	refusal, reads := errors.New("no connection"), true
	c := newCloud(t, fake.DriverOptions{Hidden: 30 * time.Second, Answer: func(op provider.Operation, _ provider.Request) error {
		if op == provider.OpCreate {
			return refusal
		}
		return nil
	}}, provider.Around(func(ctx context.Context, op provider.Operation, _ *provider.Request, call func(context.Context) error) error {
		if op == provider.OpGet && !reads {
			return errors.New("no connection")
		}
		return call(ctx)
	}))
	in := small("1", "one")
	c.ensure(&in)
	refusal = provider.Errorf(provider.Exhausted, "quota")
	c.passes(5 * time.Second)
	require.Equal(t, string(provider.Exhausted), c.ensure(&in).Reason)
	in.Deleting, reads = true, false
	require.NotEmpty(t, c.ensure(&in).Unread)
	reads = true
	c.passes(5 * time.Second)
	took, _ := c.removed(&in)
	require.Positive(t, took)
	require.False(t, c.Lose("1"))
}

// The answer to the creation, also to one that found what an earlier one had made, has the instance Running, and looks find it later.
func TestAnInstanceThatRunsBeforeItIsSeenIsNotLost(t *testing.T) {
	t.Parallel()
	for name, cached := range map[string]bool{"each look is a call": false, "some looks are answered from a cache": true} {
		now := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
		var decorators []provider.Decorator
		if cached {
			decorators = append(decorators, provider.Cache(provider.CacheOptions{Clock: now}))
		}
		c, in := newCloud(t, fake.DriverOptions{Hidden: 3 * time.Minute, Clock: now}, decorators...), small("1", "one")
		start, found := now.Now(), c.ensure(&in)
		require.True(t, found.Adopt, name)
		require.False(t, found.Provisioned, name)
		for !found.Provisioned {
			c.passes(found.RequeueAfter)
			found = c.ensure(&in)
			require.Empty(t, found.FailureReason, "%s: after %s", name, now.Now().Sub(start))
		}
		require.GreaterOrEqual(t, now.Now().Sub(start), 3*time.Minute, name)
	}
}
