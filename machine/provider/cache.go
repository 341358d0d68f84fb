package provider

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// CacheOptions configure Cache.
type CacheOptions struct {
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Cache returns a Decorator that answers Get from memory: from its last result, for 15 seconds. It stores 100,000 results and drops all of
// them beyond that. It stores neither errors nor the absence of an instance, because a provider may show it late. Delete drops the result
// for its instance.
func Cache(o CacheOptions) Decorator {
	c := &cached{clock: cmp.Or[clock.PassiveClock](o.Clock, clock.RealClock{}), entries: map[cacheKey]cacheEntry{}}
	return c.decorate
}

type cacheKey struct{ account, token string }

type cacheEntry struct {
	instance Instance
	until    time.Time
}

// cached stores the last results.
type cached struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	entries map[cacheKey]cacheEntry
}

const (
	// mostKept is the maximum number of stored results, and keptFor how long a result is used again.
	mostKept = 100_000
	keptFor  = 15 * time.Second
)

func (c *cached) decorate(calls Calls) Calls {
	get, remove := calls.Get, calls.Delete
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

// kept returns a stored result that is not too old and has the provider ID of the request.
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
	c.entries[cacheKey{r.Account, r.Token}] = cacheEntry{instance.clone(), c.clock.Now().Add(keptFor)}
}

func (c *cached) drop(r Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, cacheKey{r.Account, r.Token})
}

// clone returns a copy that shares no mutable memory.
func (i Instance) clone() Instance {
	i.Addresses, i.Resume = slices.Clone(i.Addresses), slices.Clone(i.Resume)
	return i
}
