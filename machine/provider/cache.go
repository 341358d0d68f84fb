package provider

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// CacheOptions are those of Cache.
type CacheOptions struct {
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// Cache returns a Decorator that answers Get from the last answer of Get, for one minute when the instance is Running or Stopped and for 15
// seconds otherwise, or from that of Create when the instance is Creating. It keeps 100,000 answers; beyond, it begins anew. Errors are not
// kept, nor is the absence of an instance, nor that a new one runs: a provider may show it late. Delete drops what is kept about it.
func Cache(o CacheOptions) Decorator {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &cached{clock: o.Clock, entries: map[cacheKey]cacheEntry{}}
	return c.decorate
}

type cacheKey struct{ account, token string }

type cacheEntry struct {
	instance Instance
	until    time.Time
}

// cached keeps the last answers.
type cached struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	entries map[cacheKey]cacheEntry
}

// mostKept is how many instances are kept.
const mostKept = 100_000

// keptFor is for how long an answer is used again.
func keptFor(s State) time.Duration {
	if s == Running || s == Stopped {
		return time.Minute
	}
	return 15 * time.Second
}

func (c *cached) decorate(calls Calls) Calls {
	create, get, remove := calls.Create, calls.Get, calls.Delete
	calls.Create = func(ctx context.Context, r Request) (Instance, error) {
		instance, err := create(ctx, r)
		if err == nil && instance.State == Creating {
			c.keep(r, instance)
		}
		return instance, err
	}
	calls.Get = func(ctx context.Context, r Request) (Instance, error) {
		if kept, found := c.kept(r); found {
			return kept, nil
		}
		instance, err := get(ctx, r)
		if err == nil {
			c.keep(r, instance)
		}
		return instance, err
	}
	calls.Delete = func(ctx context.Context, r Request) (bool, error) {
		c.drop(r)
		return remove(ctx, r)
	}
	return calls
}

// kept returns an answer that is not too old. One about another provider ID is none.
func (c *cached) kept(r Request) (Instance, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, found := c.entries[cacheKey{r.Account, r.Token}]
	if !found || !c.clock.Now().Before(entry.until) ||
		(r.ProviderID != "" && r.ProviderID != entry.instance.ProviderID) {
		return Instance{}, false
	}
	return entry.instance.clone(), true
}

func (c *cached) keep(r Request, instance Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= mostKept {
		clear(c.entries)
	}
	c.entries[cacheKey{r.Account, r.Token}] = cacheEntry{instance.clone(), c.clock.Now().Add(keptFor(instance.State))}
}

func (c *cached) drop(r Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, cacheKey{r.Account, r.Token})
}

// clone returns a copy that shares nothing that can be changed.
func (i Instance) clone() Instance {
	i.Addresses, i.Resume = slices.Clone(i.Addresses), slices.Clone(i.Resume)
	return i
}
