package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// Timeout returns a Decorator that ends the context of a call after a time. Its error has the class Unavailable: the provider may have
// carried out the request.
func Timeout(limit time.Duration) Decorator {
	return Around(func(ctx context.Context, op Operation, _ *Request, call func(context.Context) error) error {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := call(limited)
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err // the caller's context has ended
		}
		return Errorf(Unavailable, "%s: no answer within %s: %w", op, limit, err)
	})
}

// RateLimitOptions are the limits of a provider for one account.
type RateLimitOptions struct {
	// PerSecond is the number of calls per second, and Burst the number of calls at once. Default 10 and 1.
	PerSecond float64
	Burst     int
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// RateLimit returns a Decorator that enforces a rate for each Request.Account. It does not wait: a call that comes too early returns an
// error with Delayed and RetryAfter, and has its turn at that time. Turns are assigned in the order of the first attempts. After an error
// of the class RateLimited, the account makes no calls for the provider's RetryAfter, and then starts without a burst; other accounts
// continue.
func RateLimit(o RateLimitOptions) Decorator {
	o.PerSecond, o.Burst = cmp.Or(max(0, o.PerSecond), 10), max(1, o.Burst)
	o.Clock = cmp.Or[clock.PassiveClock](o.Clock, clock.RealClock{})
	l := &limits{options: o, accounts: map[string]*account{}}
	return Around(l.around)
}

// limits are the rates of all accounts.
type limits struct {
	options RateLimitOptions

	mu       sync.Mutex
	accounts map[string]*account
}

// account is the rate of one account.
type account struct {
	limiter *rate.Limiter
	blocked time.Time // no calls before this time
	turns   map[turn]time.Time
}

// turn is a call that waits.
type turn struct {
	op    Operation
	token string
}

const (
	// pauseLimited is how long an account makes no calls after an error of the class RateLimited without a RetryAfter.
	pauseLimited = 10 * time.Second
	// unusedTurn is how long a turn is kept for a call that is not made any more: a Collector calls again after many of its periods.
	unusedTurn = 24 * time.Hour
)

func (l *limits) around(ctx context.Context, op Operation, r *Request, call func(context.Context) error) error {
	if wait := l.wait(r.Account, turn{op, r.Token}); wait > 0 {
		return &Error{Class: RateLimited, Delayed: true, RetryAfter: wait, Err: fmt.Errorf(
			"%s waits %s: the rate of this process is %g calls a second", op, wait.Round(time.Millisecond), l.options.PerSecond)}
	}
	err := call(ctx)
	if ClassOf(err) == RateLimited && !IsDelayed(err) {
		l.block(r.Account, err)
	}
	return err
}

// wait returns the delay of a call, zero when it is its turn.
func (l *limits) wait(name string, of turn) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.options.Clock.Now()
	a := l.accounts[name]
	if a == nil {
		a = &account{limiter: rate.NewLimiter(rate.Limit(l.options.PerSecond), l.options.Burst), turns: map[turn]time.Time{}}
		l.accounts[name] = a
	}
	at, waits := a.turns[of]
	if !waits {
		maps.DeleteFunc(a.turns, func(_ turn, at time.Time) bool { return now.Sub(at) > unusedTurn })
		from := now
		if a.blocked.After(from) {
			from = a.blocked
		}
		at = from.Add(a.limiter.ReserveN(from, 1).DelayFrom(from))
	}
	if at.After(now) {
		a.turns[of] = at
		return at.Sub(now)
	}
	delete(a.turns, of)
	return 0
}

// block stops the calls of an account. Waiting calls get a new turn when they are retried.
func (l *limits) block(name string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[name]
	if until := l.options.Clock.Now().Add(cmp.Or(retryAfter(err), pauseLimited)); a != nil && until.After(a.blocked) {
		a.blocked = until
		a.limiter = rate.NewLimiter(rate.Limit(l.options.PerSecond), l.options.Burst)
		a.limiter.ReserveN(until, l.options.Burst)
		clear(a.turns)
	}
}
