package machine

import (
	"maps"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/machine/provider"
)

// attempt is what a process remembers about the last calls for a Machine. Losing it costs a call.
type attempt struct {
	// of is the fingerprint of what was asked for, and valid says that the Driver has accepted it.
	of    string
	valid bool
	// err is the last error, one of so many in a row. Before until no call is made; parked says that only another fingerprint ends that, where
	// until is zero.
	err      error
	failures int
	until    time.Time
	parked   bool
	used     time.Time
}

// attempts that were not used for so long are forgotten when there are many: their Machines went without this process.
const (
	manyAttempts   = 1000
	forgetAttempts = time.Hour
)

func (d *driver) attempt(id types.UID) attempt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attempts[id]
}

func (d *driver) remember(id types.UID, a attempt, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.used = now; len(d.attempts) >= manyAttempts {
		maps.DeleteFunc(d.attempts, func(_ types.UID, a attempt) bool { return now.Sub(a.used) > forgetAttempts && !a.parked })
	}
	d.attempts[id] = a
}

func (d *driver) forget(id types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.attempts, id)
}

// holds returns how long no call is made, and whether any is held back at all.
func (a attempt) holds(fingerprint string, now time.Time) (wait time.Duration, held bool) {
	if a.err == nil || a.of != fingerprint {
		return 0, false
	}
	if a.parked && a.until.IsZero() {
		return 0, true
	}
	wait = a.until.Sub(now)
	return wait, wait > 0
}

// after returns the attempt after a call.
func (a attempt) after(fingerprint string, err error, backoff provider.Backoff, now time.Time) attempt {
	if err == nil {
		return attempt{of: fingerprint, valid: true}
	}
	if a.of != fingerprint {
		a = attempt{of: fingerprint}
	}
	a.err = err
	if _, delayed := provider.IsDelayed(err); !delayed {
		a.failures++
	}
	wait, parked := backoff.After(err, a.failures, rand.Float64()) //nolint:gosec // it spreads Machines
	a.parked, a.until = parked, now.Add(wait)
	if parked && wait == 0 {
		a.until = time.Time{}
	}
	return a
}
