package instance_test

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine/provider"
)

// cloud is a fake cloud with a Keeper, in virtual time.
type cloud struct {
	*fake.Driver

	t      *testing.T
	clock  *clocktesting.FakePassiveClock
	keeper *instance.Keeper
}

func newCloud(t *testing.T, o fake.DriverOptions, decorators ...provider.Decorator) *cloud {
	t.Helper()
	if o.Clock == nil {
		o.Clock = clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	}
	c := &cloud{t: t, Driver: fake.NewDriver(o)}
	c.clock, _ = o.Clock.(*clocktesting.FakePassiveClock)
	keeper, err := instance.NewKeeper(instance.Options{Calls: provider.Of(c.Driver, decorators...)})
	require.NoError(t, err)
	c.keeper = keeper
	return c
}

func (c *cloud) passes(d time.Duration) { c.clock.SetTime(c.clock.Now().Add(d)) }

// ensure makes one pass, and keeps the provider ID.
func (c *cloud) ensure(in *instance.Input) instance.Outcome {
	c.t.Helper()
	in.Now = c.clock.Now()
	found, err := c.keeper.Ensure(c.t.Context(), *in)
	require.NoError(c.t, err)
	if found.Adopt {
		in.Request.ProviderID = found.Instance.ProviderID
	}
	in.Provisioned = in.Provisioned || found.Provisioned
	return found
}

// runs makes two passes, of which one makes the instance and the other sees it, and reports whether it runs.
func (c *cloud) runs(in *instance.Input) bool {
	c.t.Helper()
	c.ensure(in)
	return c.ensure(in).Provisioned
}

func small(token, account string) instance.Input {
	return instance.Input{Request: provider.Request{
		Token: token, Name: token, Cluster: "c1", Account: account, Spec: []byte(`{"size":"small"}`),
	}}
}

// calls is how many calls of all operations were made.
func (c *cloud) calls() (n int) {
	for _, op := range []provider.Operation{provider.OpCreate, provider.OpGet, provider.OpDelete, provider.OpValidate} {
		n += c.Driver.Calls(op)
	}
	return n
}

// due is a Machine whose next pass is at a time.
type due struct {
	at      time.Time
	machine int
}

// agenda is a heap of what is due.
type agenda []due

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || (a[i].at.Equal(a[j].at) && a[i].machine < a[j].machine)
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(due)) } //nolint:forcetypeassert // it is container/heap's
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// runsAll brings Machines from nothing to Running in virtual time, and returns the reasons that they had on the way.
func (c *cloud) runsAll(machines []instance.Input) map[string]int {
	c.t.Helper()
	reasons, next := map[string]int{}, &agenda{}
	for m := range machines {
		heap.Push(next, due{c.clock.Now(), m})
	}
	for passes := 0; next.Len() > 0; passes++ {
		require.Less(c.t, passes, 100*len(machines), "it does not end: %v", reasons)
		one, _ := heap.Pop(next).(due)
		c.clock.SetTime(one.at)
		found := c.ensure(&machines[one.machine])
		reasons[found.Reason]++
		if !found.Provisioned {
			require.Positive(c.t, found.RequeueAfter, "%+v", found.Decision)
			heap.Push(next, due{one.at.Add(found.RequeueAfter), one.machine})
		}
	}
	return reasons
}

// Validation, creation and looks share one limit, and an answer is used again for 15 seconds, while the Keeper looks each ten.
func TestAThousandMachinesRunInTheTimeThatTheLimitDictates(t *testing.T) {
	const number, perSecond, boot = 1000, 20, 25 * time.Second
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	c := newCloud(t, fake.DriverOptions{Boot: boot, PerSecond: perSecond, Clock: clock},
		provider.RateLimit(provider.RateLimitOptions{PerSecond: perSecond, Clock: clock}), provider.Cache(provider.CacheOptions{Clock: clock}))
	machines := make([]instance.Input, number)
	for m := range machines {
		machines[m] = small(fmt.Sprint("t", m), "one")
	}
	start := clock.Now()
	reasons := c.runsAll(machines)
	took, dictated := clock.Now().Sub(start), time.Duration(c.calls())*time.Second/perSecond+boot
	require.LessOrEqual(t, c.calls(), 4*number, "from creation to Running")
	require.LessOrEqual(t, took, dictated+15*time.Second)
	for reason := range reasons {
		require.Contains(t, []string{instance.ReasonCreating, instance.ReasonWaitingForRate, "Ready"}, reason, "the cloud has refused nothing")
	}
	for m := range machines {
		require.Equal(t, 1, c.Made(machines[m].Request.Token))
	}
	t.Logf("%d calls in %s, where the limit dictates %s", c.calls(), took, dictated)
}

func TestALimitSlowsAllMachinesOfItsCredentialsAndNoOthers(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	limited := provider.Around(func(ctx context.Context, _ provider.Operation, r *provider.Request, call func(context.Context) error) error {
		if r.Account == "busy" && clock.Now().Minute() == 0 {
			return &provider.Error{Class: provider.RateLimited, Err: errors.New("429"), RetryAfter: time.Minute}
		}
		return call(ctx)
	})
	c := newCloud(t, fake.DriverOptions{Clock: clock}, limited, provider.RateLimit(provider.RateLimitOptions{PerSecond: 100, Clock: clock}))
	first, second, other := small("1", "busy"), small("2", "busy"), small("3", "idle")
	require.Equal(t, string(provider.RateLimited), c.ensure(&first).Reason)
	found := c.ensure(&second)
	require.Equal(t, instance.ReasonWaitingForRate, found.Reason, "it makes no call at all")
	require.GreaterOrEqual(t, found.RequeueAfter, time.Minute)
	start := clock.Now()
	c.runsAll([]instance.Input{other})
	require.Less(t, clock.Now().Sub(start), time.Minute, "it does not wait for the busy account")
	c.passes(2 * time.Minute)
	require.Zero(t, c.runsAll([]instance.Input{first, second})[string(provider.RateLimited)])
}

func TestWhatIsRefusedIsAskedAgainAfterAChangeOrRarely(t *testing.T) {
	t.Parallel()
	c, token := newCloud(t, fake.DriverOptions{Token: "right"}), "wrong"
	in := small("1", "one")
	in.Request.Spec = []byte(`{"size":"enormous"}`)
	in.Request.Credentials = func(context.Context) (provider.Values, error) { return provider.Values{"token": []byte(token)}, nil }
	require.Equal(t, string(provider.Unauthenticated), c.ensure(&in).Reason)
	require.Equal(t, string(provider.Unauthenticated), c.ensure(&in).Reason)
	require.Equal(t, 1, c.calls())
	token = "right"
	found := c.ensure(&in)
	require.Equal(t, instance.ReasonInvalid, found.Reason, "it was asked at once")
	require.GreaterOrEqual(t, found.RequeueAfter, 10*time.Minute)
	require.False(t, found.Valid)
	c.passes(9 * time.Minute)
	require.Equal(t, instance.ReasonInvalid, c.ensure(&in).Reason)
	require.Equal(t, 2, c.calls())
	c.passes(3 * time.Minute)
	require.Equal(t, instance.ReasonInvalid, c.ensure(&in).Reason)
	require.Equal(t, 3, c.calls())
	in.Request.Spec = []byte(`{"size":"large"}`)
	require.True(t, c.runs(&in))
}

// An API server that has just started refuses everyone for a second, and after that nothing changes that a Keeper could see.
func TestRightsThatAreMissingForAMomentCostSeconds(t *testing.T) {
	t.Parallel()
	var refuses bool
	forbidden := provider.Around(func(ctx context.Context, _ provider.Operation, _ *provider.Request, call func(context.Context) error) error {
		if refuses {
			return provider.Errorf(provider.Unauthenticated, "RBAC: the role was not found")
		}
		return call(ctx)
	})
	c, in := newCloud(t, fake.DriverOptions{}, forbidden), small("1", "one")
	for _, pass := range []func() (time.Duration, bool){
		func() (time.Duration, bool) { o := c.ensure(&in); return o.RequeueAfter, o.Adopt },
		func() (time.Duration, bool) {
			in.Now = c.clock.Now()
			r := c.keeper.Remove(t.Context(), in)
			return r.RequeueAfter, r.Gone
		},
	} {
		refuses = true
		wait, done := pass()
		require.False(t, done)
		require.Positive(t, wait)
		require.Less(t, wait, 10*time.Second)
		refuses = false
		c.passes(wait)
		_, done = pass()
		require.True(t, done)
	}
}

func TestDataForTheFirstBootComesBeforeTheInstance(t *testing.T) {
	t.Parallel()
	c, in := newCloud(t, fake.DriverOptions{}), small("1", "one")
	var data []byte
	var failure error
	in.FirstBoot = func(context.Context, provider.Request) ([]byte, error) { return data, failure }
	in.AwaitsData = true
	found := c.ensure(&in)
	require.Equal(t, instance.ReasonWaitingForData, found.Reason)
	require.True(t, found.Valid, "it was validated")
	in.AwaitsData, failure = false, errors.New("no connection")
	require.Contains(t, c.ensure(&in).Message, "read first-boot data: no connection")
	c.passes(time.Minute)
	failure = provider.Errorf(provider.Invalid, "the Secret has no user data") // its Secret may be mended, which nothing of the Request shows
	require.Contains(t, c.ensure(&in).Message, "the Secret has no user data")
	c.passes(time.Minute)
	data, failure = []byte("hello"), nil
	require.True(t, c.runs(&in))
	require.Equal(t, "hello", c.UserData("1"))
	require.Equal(t, 1, c.Driver.Calls(provider.OpValidate), "once is enough")
}

// What was refused may be the first-boot data, which nothing of the Request shows.
func TestARefusedCreationWithFirstBootDataIsTriedAgain(t *testing.T) {
	t.Parallel()
	refuse := true
	c, in := newCloud(t, fake.DriverOptions{Answer: func(op provider.Operation, _ provider.Request) error {
		if op == provider.OpCreate && refuse {
			return provider.Errorf(provider.Invalid, "user data of 17000 bytes")
		}
		return nil
	}}), small("1", "one")
	in.FirstBoot = func(context.Context, provider.Request) ([]byte, error) { return []byte("hello"), nil }
	require.Contains(t, c.ensure(&in).Message, "user data of 17000 bytes")
	asked := c.calls()
	c.passes(time.Minute)
	require.Contains(t, c.ensure(&in).Message, "user data of 17000 bytes")
	require.Equal(t, asked, c.calls())
	refuse = false
	c.passes(11 * time.Minute)
	require.True(t, c.runs(&in))
}

func TestTheRefusalOfARequestIsTheNewestOne(t *testing.T) {
	t.Parallel()
	c, in := newCloud(t, fake.DriverOptions{}), small("1", "one")
	for _, typo := range []string{"first", "second"} {
		in.Err = provider.Errorf(provider.Invalid, "unknown field %s", typo)
		require.Contains(t, c.ensure(&in).Message, "unknown field "+typo)
	}
}

func TestInputThatCannotBeReadIsAnErrorAndDelaysNoDeletion(t *testing.T) {
	t.Parallel()
	c, in := newCloud(t, fake.DriverOptions{Vanish: time.Minute}), small("1", "one")
	in.Err = errors.New("class x does not exist")
	in.Now = c.clock.Now()
	found, err := c.keeper.Ensure(t.Context(), in)
	require.ErrorContains(t, err, "input of driver fake: class x does not exist")
	require.Equal(t, instance.ReasonNoInput, found.Reason)
	require.Zero(t, c.calls())
	in.Err = nil
	require.True(t, c.runs(&in))
	in.Err = errors.New("class x does not exist")
	found, err = c.keeper.Ensure(t.Context(), in)
	require.Error(t, err)
	require.True(t, found.Keep, "the instance runs, whatever became of the class")

	in.Deleting = true
	require.True(t, c.ensure(&in).Provisioned, "a deletion looks at it")
	removal := c.keeper.Remove(t.Context(), in)
	require.False(t, removal.Gone)
	require.Equal(t, 10*time.Second, removal.RequeueAfter)
	c.passes(time.Minute)
	require.Equal(t, instance.Removal{Gone: true}, c.keeper.Remove(t.Context(), in))
	in.Request.ProviderID = ""
	require.Equal(t, instance.Decision{Keep: true}, c.ensure(&in).Decision, "nothing is found, and nothing is said")
}

// The cache of a process that lost its Lease shows a Machine that another one has deleted.
func TestNothingIsMadeForAnObjectThatIsNotKept(t *testing.T) {
	t.Parallel()
	c, in := newCloud(t, fake.DriverOptions{}), small("1", "one")
	kept, failed := false, errors.New("no connection")
	in.IsKept = func(context.Context) (bool, error) { return kept, failed }
	found := c.ensure(&in)
	require.Contains(t, found.Message, "no connection")
	require.Positive(t, found.RequeueAfter, "it is tried again")
	failed = nil
	c.passes(time.Minute)
	found = c.ensure(&in)
	require.Equal(t, instance.Decision{Keep: true}, found.Decision)
	require.Zero(t, c.Made("1"))
	kept = true
	require.True(t, c.runs(&in), "no failure was counted")
}

func TestADeletionIsTriedAgainHoweverOftenItFails(t *testing.T) {
	t.Parallel()
	lost := provider.Errorf(provider.Invalid, "locked")
	c := newCloud(t, fake.DriverOptions{Answer: func(op provider.Operation, _ provider.Request) error {
		if op == provider.OpDelete {
			return lost
		}
		return nil
	}})
	in := small("1", "one")
	c.ensure(&in)
	in.Deleting, in.Err = true, errors.New("no class")
	in.Now = c.clock.Now()
	removal := c.keeper.Remove(t.Context(), in)
	require.Equal(t, "fake: locked (the input could not be read: no class)", removal.Message)
	require.GreaterOrEqual(t, removal.RequeueAfter, 10*time.Minute, "a refusal ends no deletion")
	c.ensure(&in)
	require.Equal(t, "fake: locked", c.keeper.Remove(t.Context(), in).Message)
	require.Equal(t, 1, c.Driver.Calls(provider.OpDelete), "a look between two deletions ends no wait")
	c.passes(11 * time.Minute)
	lost = nil
	in.Now = c.clock.Now()
	require.True(t, c.keeper.Remove(t.Context(), in).Gone)
}

// A cloud, or a cache in front of it, may still show an instance whose deletion it has accepted.
func TestAnInstanceIsGoingFromTheFirstDeletionThatIsAccepted(t *testing.T) {
	t.Parallel()
	late := func(c provider.Calls) provider.Calls {
		get := c.Get
		c.Get = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
			i, err := get(ctx, r)
			i.State = provider.Running
			return i, err
		}
		return c
	}
	var lost error
	c := newCloud(t, fake.DriverOptions{Vanish: time.Hour, Answer: func(op provider.Operation, _ provider.Request) error {
		if op == provider.OpDelete {
			return lost
		}
		return nil
	}}, late)
	in := small("1", "one")
	require.True(t, c.runs(&in))
	in.Deleting = true
	require.False(t, c.ensure(&in).Going)
	require.False(t, c.keeper.Remove(t.Context(), in).Gone)
	require.True(t, c.ensure(&in).Going)
	lost = errors.New("no connection")
	require.Contains(t, c.keeper.Remove(t.Context(), in).Message, "no connection")
	require.True(t, c.ensure(&in).Going, "an error takes nothing back")
	in.Request.ProviderID = ""
	require.True(t, c.ensure(&in).Going, "it was found by its Token")
}

func TestAnErrorWithoutABackoffIsTriedAgainNevertheless(t *testing.T) {
	t.Parallel()
	driver := fake.NewDriver(fake.DriverOptions{Answer: func(provider.Operation, provider.Request) error { return errors.New("reset") }})
	keeper, err := instance.NewKeeper(instance.Options{Calls: provider.Of(driver), Backoff: provider.Backoff{}, Poll: time.Second})
	require.NoError(t, err)
	in := small("1", "one")
	in.Now = time.Unix(1000, 0)
	found, err := keeper.Ensure(t.Context(), in)
	require.NoError(t, err)
	require.Positive(t, found.RequeueAfter)
	require.Positive(t, keeper.Remove(t.Context(), in).RequeueAfter)
}

func TestAKeeperNeedsCalls(t *testing.T) {
	t.Parallel()
	_, err := instance.NewKeeper(instance.Options{})
	require.ErrorContains(t, err, "provider.Of")
}
