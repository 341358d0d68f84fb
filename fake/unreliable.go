package fake

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// UnreliableOptions are the habits that Unreliable adds. With the zero value it adds none.
type UnreliableOptions struct {
	// Latency is how long each call takes, or until its context ends.
	Latency time.Duration
	// Boot is how long an instance is Creating, and Vanish how long it is Deleting before the Driver is asked to delete it. Both count from
	// calls of this process.
	Boot, Vanish time.Duration
	// Hidden is for how long Get and List do not show an instance that this process has created, and Delete does not find it by its token
	// alone. A Create with the same token finds it.
	Hidden time.Duration
	// Quota is how many instances a cluster may have; zero is no limit. It counts those that the Driver lists, or without a list, those that
	// this process has created.
	Quota int
	// PerSecond is how many calls a second are allowed, with a burst of as many, at least one; zero is no limit.
	PerSecond float64
	// Answer is called after each call that was carried out; an error of it replaces the answer, which is lost. LoseEvery returns one.
	Answer func(op cloud.Operation, r cloud.Request) error
	// Clock defaults to the real one.
	Clock clock.Clock
}

// LoseEvery returns a function for Answer that loses every n-th answer, none when n is zero. Safe for concurrent use.
func LoseEvery(n int) func(cloud.Operation, cloud.Request) error {
	var calls atomic.Int64
	return func(op cloud.Operation, _ cloud.Request) error {
		if n <= 0 || calls.Add(1)%int64(n) != 0 {
			return nil
		}
		return cloud.Errorf(cloud.Unavailable, "the answer to %s was lost", op)
	}
}

// Unreliable returns a Decorator that gives a Driver the habits of a cloud, those of a fake.Driver: for a Driver that makes something real,
// at once. Pass it to provider.Of first, next to the Driver.
func Unreliable(o UnreliableOptions) cloud.Decorator {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return func(c cloud.Calls) cloud.Calls {
		u := &unreliable{
			options: o, driver: c, known: map[string]*observed{},
			habits: newHabits(o.Hidden, o.Vanish, o.Quota, o.PerSecond, o.Answer, o.Clock),
		}
		c.Create, c.Get, c.Delete = u.create, u.get, u.remove
		if c.List != nil {
			c.List = u.list
		}
		if c.Validate != nil {
			c.Validate = u.validate
		}
		return c
	}
}

// unreliable are the calls to one Driver.
type unreliable struct {
	options UnreliableOptions
	driver  cloud.Calls

	mu     sync.Mutex
	habits habits
	known  map[string]*observed // by token
}

// observed is when this process has created an instance, and when its deletion began.
type observed struct{ created, deleted time.Time }

// begin is what every call goes through first.
func (u *unreliable) begin(ctx context.Context) error {
	if u.options.Latency > 0 {
		select {
		case <-ctx.Done():
		case <-u.options.Clock.After(u.options.Latency):
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.habits.limited()
}

// of returns what is known about a token. The caller holds the lock.
func (u *unreliable) of(token string) *observed {
	if u.known[token] == nil {
		u.known[token] = &observed{}
	}
	return u.known[token]
}

// seen returns an instance as it is shown now, and whether it can be seen.
func (u *unreliable) seen(i cloud.Instance) (cloud.Instance, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.known[i.Token]
	switch {
	case known == nil:
		return i, true
	case !known.deleted.IsZero():
		i.State = cloud.Deleting
	case i.State == cloud.Running && !known.created.IsZero() && u.options.Clock.Now().Sub(known.created) < u.options.Boot:
		i.State = cloud.Creating
	}
	return i, !u.habits.hides(known.created)
}

func (u *unreliable) create(ctx context.Context, r cloud.Request) (cloud.Instance, error) {
	if err := u.begin(ctx); err != nil {
		return cloud.Instance{}, err
	}
	if err := u.hasRoom(ctx, r); err != nil {
		return cloud.Instance{}, err
	}
	i, err := u.driver.Create(ctx, r)
	if err != nil {
		return i, err
	}
	u.mu.Lock()
	if known := u.of(r.Token); known.created.IsZero() {
		known.created = u.options.Clock.Now()
	}
	u.mu.Unlock()
	i, _ = u.seen(i) // clouds keep their tokens consistently
	return i, u.habits.lost(cloud.OpCreate, r)
}

// hasRoom returns an error when another instance would exceed the quota. One that exists needs no room.
func (u *unreliable) hasRoom(ctx context.Context, r cloud.Request) error {
	if u.options.Quota <= 0 {
		return nil
	}
	if _, err := u.driver.Get(ctx, r); cloud.ClassOf(err) != cloud.NotFound {
		return err
	}
	u.mu.Lock()
	number := len(u.known)
	u.mu.Unlock()
	if u.driver.List != nil {
		all, err := u.driver.List(ctx, r)
		if err != nil {
			return err
		}
		number = len(all)
	}
	return u.habits.full(number)
}

func (u *unreliable) get(ctx context.Context, r cloud.Request) (cloud.Instance, error) {
	if err := u.begin(ctx); err != nil {
		return cloud.Instance{}, err
	}
	i, err := u.driver.Get(ctx, r)
	if err != nil {
		return i, err
	}
	i, visible := u.seen(i)
	if !visible {
		return cloud.Instance{}, cloud.Errorf(cloud.NotFound, "there is no instance %s", r.Token)
	}
	return i, u.habits.lost(cloud.OpGet, r)
}

func (u *unreliable) remove(ctx context.Context, r cloud.Request) (gone bool, err error) {
	if err := u.begin(ctx); err != nil {
		return false, err
	}
	i, err := u.driver.Get(ctx, r)
	if cloud.ClassOf(err) == cloud.NotFound {
		return true, u.habits.lost(cloud.OpDelete, r)
	}
	if err != nil {
		return false, err
	}
	u.mu.Lock()
	known := u.of(i.Token)
	if r.ProviderID == "" && u.habits.hides(known.created) {
		u.mu.Unlock()
		return true, u.habits.lost(cloud.OpDelete, r)
	}
	if known.deleted.IsZero() {
		known.deleted = u.options.Clock.Now()
	}
	waits := !u.habits.vanished(known.deleted)
	u.mu.Unlock()
	if waits {
		return false, u.habits.lost(cloud.OpDelete, r)
	}
	if gone, err = u.driver.Delete(ctx, r); err != nil {
		return false, err
	}
	if gone {
		u.mu.Lock()
		delete(u.known, i.Token)
		u.mu.Unlock()
	}
	return gone, u.habits.lost(cloud.OpDelete, r)
}

func (u *unreliable) list(ctx context.Context, r cloud.Request) ([]cloud.Instance, error) {
	if err := u.begin(ctx); err != nil {
		return nil, err
	}
	all, err := u.driver.List(ctx, r)
	if err != nil {
		return nil, err
	}
	var shown []cloud.Instance
	for _, i := range all {
		if i, visible := u.seen(i); visible {
			shown = append(shown, i)
		}
	}
	return shown, u.habits.lost(cloud.OpList, r)
}

func (u *unreliable) validate(ctx context.Context, r cloud.Request) error {
	if err := u.begin(ctx); err != nil {
		return err
	}
	if err := u.driver.Validate(ctx, r); err != nil {
		return err
	}
	return u.habits.lost(cloud.OpValidate, r)
}
