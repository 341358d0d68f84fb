package fake

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// UnreliableOptions configure the behavior that Unreliable adds. The zero value adds none.
type UnreliableOptions struct {
	// Latency is how long each call takes, unless its context ends earlier.
	Latency time.Duration
	// Boot is how long an instance is Creating. Vanish is how long it is Deleting; the first call after that deletes it in the Driver. Both
	// count from calls of this process.
	Boot, Vanish time.Duration
	// Hidden is how long Get and List do not return an instance that this process has created, and Delete does not find it by its token alone.
	// A Create with the same token finds it: tokens of clouds are strongly consistent.
	Hidden time.Duration
	// Quota limits the instances of a cluster that the Driver lists, including those in deletion; zero means no limit.
	Quota int
	// PerSecond limits the calls per second, with a burst of the same number, at least one; zero means no limit. Calls beyond it fail with the
	// class RateLimited and RetryAfter.
	PerSecond float64
	// Answer is called after each call that was carried out. If it returns an error, that error replaces the response. LoseEvery returns such
	// a function.
	Answer func(op cloud.Operation, r cloud.Request) error
	// Clock defaults to the real one. The latency does not depend on it.
	Clock clock.PassiveClock
}

// LoseEvery returns a function for Answer that loses every n-th response, none when n is zero. Safe for concurrent use.
func LoseEvery(n int) func(cloud.Operation, cloud.Request) error {
	var calls atomic.Int64
	return func(op cloud.Operation, _ cloud.Request) error {
		if n <= 0 || calls.Add(1)%int64(n) != 0 {
			return nil
		}
		return cloud.Errorf(cloud.Unavailable, "the answer to %s was lost", op)
	}
}

// Unreliable returns a Decorator that adds the behavior of a cloud, as in fake.Driver, to a Driver that creates real instances at once.
// Pass it to provider.Of first, next to the Driver.
func Unreliable(o UnreliableOptions) cloud.Decorator {
	o.Clock = cmp.Or[clock.PassiveClock](o.Clock, clock.RealClock{})
	return func(c cloud.Calls) cloud.Calls {
		u := &unreliable{options: o, driver: c, limiter: rate.NewLimiter(rate.Inf, 0), known: map[string]*observed{}}
		if o.PerSecond > 0 {
			u.limiter = rate.NewLimiter(rate.Limit(o.PerSecond), max(1, int(o.PerSecond)))
		}
		c.Create, c.Get, c.Delete = u.create, u.get, u.remove
		if c.List != nil {
			c.List = u.list
		}
		return cloud.Around(u.around)(c)
	}
}

// unreliable wraps the calls to one Driver.
type unreliable struct {
	options UnreliableOptions
	driver  cloud.Calls
	limiter *rate.Limiter

	mu    sync.Mutex
	known map[string]*observed // by provider ID
}

// observed records when this process created an instance, and when and by which request its deletion started.
type observed struct {
	created, deleted time.Time
	deletion         cloud.Request
}

// around wraps every call.
func (u *unreliable) around(ctx context.Context, op cloud.Operation, r *cloud.Request, call func(context.Context) error) error {
	if u.options.Latency > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(u.options.Latency):
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	now := u.options.Clock.Now()
	turn := u.limiter.ReserveN(now, 1)
	if wait := turn.DelayFrom(now); wait > 0 {
		turn.CancelAt(now)
		return &cloud.Error{Class: cloud.RateLimited, Err: errors.New("the fake cloud allows no more calls now"), RetryAfter: wait}
	}
	for _, deletion := range u.due(now) {
		_, _ = u.driver.Delete(ctx, deletion) // the caller retries for instances that remain
	}
	if err := call(ctx); err != nil || u.options.Answer == nil {
		return err
	}
	return u.options.Answer(op, *r)
}

// due returns the overdue deletions, each only once.
func (u *unreliable) due(now time.Time) (all []cloud.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, known := range u.known {
		if !known.deleted.IsZero() && now.Sub(known.deleted) >= u.options.Vanish {
			all = append(all, known.deletion)
			delete(u.known, id)
		}
	}
	return all
}

// of returns the record of an instance. The caller holds the lock.
func (u *unreliable) of(i cloud.Instance) *observed {
	if u.known[i.ProviderID] == nil {
		u.known[i.ProviderID] = &observed{}
	}
	return u.known[i.ProviderID]
}

// seen returns an instance in its visible state, and whether it is visible.
func (u *unreliable) seen(i cloud.Instance) (cloud.Instance, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.known[i.ProviderID]
	if known == nil {
		return i, true
	}
	age := u.options.Clock.Now().Sub(known.created) // very long for an instance that this process has not created
	switch {
	case !known.deleted.IsZero():
		i.State = cloud.Deleting
	case i.State == cloud.Running && age < u.options.Boot:
		i.State = cloud.Creating
	}
	return i, age >= u.options.Hidden
}

func (u *unreliable) create(ctx context.Context, r cloud.Request) (cloud.Instance, error) {
	if err := u.hasRoom(ctx, r); err != nil {
		return cloud.Instance{}, err
	}
	i, err := u.driver.Create(ctx, r)
	if err != nil {
		return i, err
	}
	if i.ProviderID == "" { // the Driver has not created it yet
		return i, nil
	}
	u.mu.Lock()
	if known := u.of(i); known.created.IsZero() {
		known.created = u.options.Clock.Now()
	}
	u.mu.Unlock()
	i, _ = u.seen(i)
	return i, nil
}

// hasRoom returns an error when another instance would exceed the quota. An existing instance does not count as another one.
func (u *unreliable) hasRoom(ctx context.Context, r cloud.Request) error {
	if u.options.Quota <= 0 || u.driver.List == nil {
		return nil
	}
	if _, err := u.driver.Get(ctx, r); cloud.ClassOf(err) != cloud.NotFound {
		return err
	}
	all, err := u.driver.List(ctx, r)
	if err == nil && len(all) >= u.options.Quota {
		err = cloud.Errorf(cloud.Exhausted, "the quota of %d instances is used up", u.options.Quota)
	}
	return err
}

func (u *unreliable) get(ctx context.Context, r cloud.Request) (cloud.Instance, error) {
	i, err := u.driver.Get(ctx, r)
	if err != nil {
		return i, err
	}
	i, visible := u.seen(i)
	if !visible {
		return cloud.Instance{}, cloud.Errorf(cloud.NotFound, "there is no instance %s", r.Token)
	}
	return i, nil
}

func (u *unreliable) remove(ctx context.Context, r cloud.Request) (gone bool, err error) {
	i, err := u.driver.Get(ctx, r)
	_, visible := u.seen(i)
	switch hidden := r.ProviderID == "" && !visible; {
	case cloud.ClassOf(err) == cloud.NotFound || err == nil && hidden:
		return true, nil
	case err != nil:
		return false, err
	case u.options.Vanish <= 0 || i.ProviderID == "":
		return u.driver.Delete(ctx, r)
	}
	r.ProviderID = i.ProviderID // later, another instance may have its token
	u.mu.Lock()
	defer u.mu.Unlock()
	if known := u.of(i); known.deleted.IsZero() {
		known.deleted, known.deletion = u.options.Clock.Now(), r
	}
	return false, nil
}

func (u *unreliable) list(ctx context.Context, r cloud.Request) ([]cloud.Instance, error) {
	all, err := u.driver.List(ctx, r)
	var shown []cloud.Instance
	for _, i := range all {
		if i, visible := u.seen(i); visible {
			shown = append(shown, i)
		}
	}
	return shown, err
}
