package fake

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// habits are what a cloud does to its callers: a Driver has them, and Unreliable gives them to another Driver. The caller holds a lock.
type habits struct {
	hidden, vanish time.Duration
	quota          int
	answer         func(cloud.Operation, cloud.Request) error
	clock          clock.PassiveClock
	limiter        *rate.Limiter
}

func newHabits(hidden, vanish time.Duration, quota int, perSecond float64, answer func(cloud.Operation, cloud.Request) error,
	now clock.PassiveClock,
) habits {
	h := habits{hidden: hidden, vanish: vanish, quota: quota, answer: answer, clock: now, limiter: rate.NewLimiter(rate.Inf, 0)}
	if perSecond > 0 {
		h.limiter = rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond)))
	}
	return h
}

// limited returns the error of a call that comes too early.
func (h *habits) limited() error {
	now := h.clock.Now()
	reserved := h.limiter.ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait <= 0 {
		return nil
	}
	reserved.CancelAt(now)
	return &cloud.Error{Class: cloud.RateLimited, Message: "the fake cloud allows no more calls now", RetryAfter: wait}
}

// full returns the error of a creation while there are so many instances.
func (h *habits) full(instances int) error {
	if h.quota > 0 && instances >= h.quota {
		return cloud.Errorf(cloud.Exhausted, "the quota of %d instances is used up", h.quota)
	}
	return nil
}

// hides reports whether an instance is too new to be seen.
func (h *habits) hides(created time.Time) bool {
	return !created.IsZero() && h.clock.Now().Sub(created) < h.hidden
}

// vanished reports whether the deletion of an instance, which began at a time, is over.
func (h *habits) vanished(deleted time.Time) bool {
	return !deleted.IsZero() && h.clock.Now().Sub(deleted) >= h.vanish
}

// lost returns the error of an answer that is lost.
func (h *habits) lost(op cloud.Operation, r cloud.Request) error {
	if h.answer == nil {
		return nil
	}
	return h.answer(op, r)
}
