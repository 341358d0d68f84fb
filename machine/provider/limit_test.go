package provider_test

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/provider"
)

// event is a Machine whose turn comes at a time.
type event struct {
	at      time.Time
	machine int
}

// agenda are events in the order of their times.
type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if a[i].at.Equal(a[j].at) {
		return a[i].machine < a[j].machine
	}
	return a[i].at.Before(a[j].at)
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) } //nolint:forcetypeassert // it is container/heap's
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// life brings Machines from nothing to Running in virtual time: each is created, and then looked at until it runs.
type life struct {
	clock    *clocktesting.FakePassiveClock
	calls    provider.Calls
	backoff  provider.Backoff
	account  func(machine int) string
	attempts map[int]int
	ids      map[int]string
	errors   int
	finished map[int]time.Time
}

// step is one pass over a Machine, and returns when the next one is.
func (l *life) step(t *testing.T, machine int) (again time.Duration) {
	r := provider.Request{
		Token: fmt.Sprint("t", machine), Name: fmt.Sprint("m", machine), Spec: []byte(`{"size":"small"}`),
		Account: l.account(machine), ProviderID: l.ids[machine],
	}
	call := l.calls.Get
	if r.ProviderID == "" {
		call = l.calls.Create
	}
	instance, err := call(t.Context(), r)
	if err != nil {
		if !provider.IsDelayed(err) {
			l.errors++
			l.attempts[machine]++
		}
		return l.backoff.After(err, l.attempts[machine], 0)
	}
	l.ids[machine], l.attempts[machine] = instance.ProviderID, 0
	if instance.State == provider.Running {
		l.finished[machine] = l.clock.Now()
		return 0
	}
	return 15 * time.Second
}

func (l *life) all(t *testing.T, machines int) {
	start := l.clock.Now()
	due := &agenda{}
	for m := range machines {
		heap.Push(due, event{start, m})
	}
	for steps := 0; due.Len() > 0; steps++ {
		require.Less(t, steps, 100*machines, "it does not end")
		next, _ := heap.Pop(due).(event)
		l.clock.SetTime(next.at)
		if again := l.step(t, next.machine); again > 0 {
			heap.Push(due, event{next.at.Add(again), next.machine})
		}
	}
}

func newLife(cloud fake.DriverOptions, limit provider.RateLimitOptions) (*life, *fake.Driver) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	cloud.Clock, limit.Clock = clock, clock
	driver := fake.NewDriver(cloud)
	return &life{
		clock: clock, backoff: provider.DefaultBackoff(), attempts: map[int]int{}, ids: map[int]string{}, finished: map[int]time.Time{},
		calls:   provider.Of(driver, provider.RateLimit(limit), provider.Cache(provider.CacheOptions{Clock: clock})),
		account: func(int) string { return "one" },
	}, driver
}

func TestAThousandMachinesRunInTheTimeThatTheLimitDictates(t *testing.T) {
	const machines, perSecond = 1000, 20
	l, driver := newLife(fake.DriverOptions{Boot: 25 * time.Second, PerSecond: perSecond}, provider.RateLimitOptions{PerSecond: perSecond})
	start := l.clock.Now()
	l.all(t, machines)
	require.Len(t, l.finished, machines)
	require.Zero(t, l.errors, "the cloud has refused no call")
	calls := driver.Calls(provider.OpCreate) + driver.Calls(provider.OpGet)
	require.LessOrEqual(t, calls, 4*machines)
	dictated := time.Duration(calls)*time.Second/perSecond + 25*time.Second
	require.LessOrEqual(t, l.clock.Now().Sub(start), dictated+15*time.Second, "%d calls", calls)
	t.Logf("%d calls in %s, where the limit dictates %s", calls, l.clock.Now().Sub(start), dictated)
}

func TestALimitOfTheCloudSlowsItsAccountAndNoOther(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	driver := &scripted{}
	calls := provider.Of(driver, provider.RateLimit(provider.RateLimitOptions{PerSecond: 10, Clock: now}))
	get := func(account, token string) error {
		_, err := calls.Get(t.Context(), provider.Request{Account: account, Token: token})
		return err
	}
	wait := func(err error) time.Duration {
		require.True(t, provider.IsDelayed(err), "%v", err)
		return provider.DefaultBackoff().After(err, 1, 0)
	}
	driver.err = &provider.Error{Class: provider.RateLimited, RetryAfter: time.Minute}
	require.Equal(t, provider.RateLimited, provider.ClassOf(get("a", "1")))
	driver.err = nil
	require.Equal(t, 60100*time.Millisecond, wait(get("a", "1")), "and no burst then")
	require.Equal(t, 60200*time.Millisecond, wait(get("a", "2")))
	require.NoError(t, get("b", "3"), "another account")
	now.SetTime(now.Now().Add(60100 * time.Millisecond))
	require.Equal(t, 100*time.Millisecond, wait(get("a", "2")), "it keeps its turn")
	require.NoError(t, get("a", "1"))
	require.Equal(t, 3, driver.calls, "delayed calls are not made")

	driver.err = provider.Errorf(provider.RateLimited, "429")
	now.SetTime(now.Now().Add(100 * time.Millisecond))
	require.Equal(t, provider.RateLimited, provider.ClassOf(get("a", "2")))
	require.Equal(t, 10100*time.Millisecond, wait(get("a", "4")), "the default pause")
	driver.err = errors.New("reset")
	now.SetTime(now.Now().Add(time.Hour))
	require.Error(t, get("a", "5"))
	require.NoError(t, func() error { driver.err = nil; now.SetTime(now.Now().Add(time.Second)); return get("a", "6") }(), "no pause after it")
}

// A Collector lists an account and then deletes an instance, which waits for its turn until the Collector comes back to it.
func TestATurnIsKeptForACallThatIsMadeMuchLater(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	calls := provider.Of(&scripted{}, provider.RateLimit(provider.RateLimitOptions{PerSecond: 1, Clock: now}))
	get := func(token string) error {
		_, err := calls.Get(t.Context(), provider.Request{Token: token})
		return err
	}
	require.NoError(t, get("list"))
	require.True(t, provider.IsDelayed(get("deletion")))
	now.SetTime(now.Now().Add(time.Hour))
	require.NoError(t, get("list"))
	require.True(t, provider.IsDelayed(get("another deletion")))
	require.NoError(t, get("deletion"))
}

func TestTheCloudsOwnLimitIsReachedOnceAndThenKept(t *testing.T) {
	l, driver := newLife(fake.DriverOptions{PerSecond: 5, Boot: time.Second}, provider.RateLimitOptions{PerSecond: 50, Burst: 10})
	l.all(t, 100)
	require.Len(t, l.finished, 100)
	require.Less(t, l.errors, 2*driver.Calls(provider.OpCreate), "a limit that is set too high costs errors, but ends")
	for m := range 100 {
		require.Equal(t, 1, driver.Made(fmt.Sprint("t", m)))
	}
}

func TestNoAnswerThatIsLostMakesASecondInstance(t *testing.T) {
	var n int
	l, driver := newLife(fake.DriverOptions{
		Boot: time.Second, Hidden: 10 * time.Second, Answer: func(provider.Operation, provider.Request) error {
			if n++; n%3 != 0 {
				return errors.New("connection reset")
			}
			return nil
		},
	}, provider.RateLimitOptions{PerSecond: 1000})
	l.all(t, 50)
	require.Len(t, l.finished, 50)
	require.Positive(t, l.errors)
	for m := range 50 {
		require.Equal(t, 1, driver.Made(fmt.Sprint("t", m)))
	}
}

func TestCredentialsOfTheMetadataService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked int
		content, failure := map[string]string{"/id": "i", "/key": "k"}, error(nil)
		metadata := provider.FromMetadata(map[string]string{"id": "/id", "key": "/key"}, func(ctx context.Context, path string) ([]byte, error) {
			asked++
			_, limited := ctx.Deadline()
			require.True(t, limited)
			if text, found := content[path]; found || failure != nil {
				return []byte(text), failure
			}
			return nil, fmt.Errorf("%w: 404", provider.ErrNoCredentials)
		})
		want := provider.Values{"id": []byte("i"), "key": []byte("k")}
		for range 3 {
			values, err := metadata.Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, values)
			delete(values, "id") // the caller's own
		}
		require.Equal(t, 2, asked)
		time.Sleep(time.Minute) // of the test's own time
		failure = errors.New("timeout")
		_, err := metadata.Read(t.Context())
		require.Equal(t, provider.Unavailable, provider.ClassOf(err))
		require.NotErrorIs(t, err, provider.ErrNoCredentials, "what cannot be read may exist")
		failure = nil
		delete(content, "/key")
		_, err = metadata.Read(t.Context())
		require.Equal(t, provider.Unauthenticated, provider.ClassOf(err))
		require.ErrorContains(t, err, "[key]")
		clear(content)
		other := func(context.Context) (provider.Values, error) { return want, nil }
		values, err := provider.FirstOf(metadata, other).Read(t.Context())
		require.NoError(t, err, "the next source has them")
		require.Equal(t, want, values)
	})
}
