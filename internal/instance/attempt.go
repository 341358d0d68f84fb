package instance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/machinist-dev/machinist/machine/provider"
)

// attempt is the memory of a process about the last calls for a Token. Losing it costs a call.
type attempt struct {
	// of is the fingerprint of the request; valid: the Driver has accepted it.
	of    string
	valid bool
	// accepted: the Driver has begun the deletion. No later error changes that.
	accepted bool
	// absent: a deletion has read often enough an instance that may be too new to be visible.
	absent bool
	// err is the last error; failures is the number of errors in a row. No call with the same fingerprint is made before until.
	err      error
	failures int
	// missed is how many of them report that there is no instance. Other errors do not show whether there is one.
	missed int
	until  time.Time
	used   time.Time
}

// attempts are the attempts of all Tokens. Safe for concurrent use.
type attempts struct {
	mu  sync.Mutex
	all map[attemptKey]attempt
}

// attemptKey separates the attempts to delete an instance from the others, because a pass over a Machine in deletion makes both.
type attemptKey struct {
	token    string
	deletion bool
}

// Unused attempts are forgotten after a time when there are many: their Machines were deleted without this process.
const (
	manyAttempts   = 1000
	forgetAttempts = time.Hour
)

func (m *attempts) of(key attemptKey) attempt {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[key]
}

func (m *attempts) remember(key attemptKey, a attempt, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.used = now; len(m.all) >= manyAttempts {
		maps.DeleteFunc(m.all, func(_ attemptKey, a attempt) bool { return now.Sub(a.used) > forgetAttempts })
	}
	m.all[key] = a
}

func (m *attempts) forget(token string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, attemptKey{token: token})
	delete(m.all, attemptKey{token, true})
}

// wait returns how long no call is made, zero when it can be made now.
func (a attempt) wait(fingerprint string, now time.Time) time.Duration {
	if a.err == nil || a.of != fingerprint {
		return 0
	}
	return max(0, a.until.Sub(now))
}

// after returns the new attempt after a call for a Token.
func (a attempt) after(token, fingerprint string, err error, backoff provider.Backoff, now time.Time) attempt {
	if err == nil {
		return attempt{of: fingerprint, valid: true}
	}
	if a.of != fingerprint {
		a = attempt{of: fingerprint, accepted: a.accepted}
	}
	a.err = err
	if !provider.IsDelayed(err) {
		a.failures++
	}
	if provider.ClassOf(err) == provider.NotFound {
		a.missed++
	}
	a.until = now.Add(backoff.After(err, a.failures, spread(token, a.failures)))
	return a
}

// counted returns how often in a row there was an error like the last one, see Facts.Failures.
func (a attempt) counted() int {
	if provider.ClassOf(a.err) == provider.NotFound {
		return a.missed
	}
	return a.failures
}

// spread returns a number from 0 to below 1 that depends on Token and failures, so that many Machines are not retried at once. It is not
// random: the same history gives the same times.
func spread(token string, failures int) float64 {
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%d %s", failures, token)
	return float64(hash.Sum32()) / (1 << 32)
}

// Fixed fingerprints: another specification changes nothing for a read or a deletion. A provider ID that is found ends the wait for a new
// instance to become visible.
const (
	looking         = "looking"
	deletion        = "deletion"
	deletionByToken = "deletion by the Token"
)

// fingerprint returns a digest of the inputs that a rejected creation depends on: a call with another fingerprint is made at once.
func fingerprint(ctx context.Context, r *provider.Request) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q %q %q\n", r.Spec, r.OperatingSystem, r.Version, r.FailureDomain, r.Account)
	values, err := r.Credentials.Read(ctx)
	fmt.Fprintf(sum, "%t\n", err != nil)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(sum, "%q %q\n", name, values[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// surelyNone is how many results in a row must report that there is no instance before a deletion without a provider ID accepts it: with
// the delays of the default Backoff they take more than a minute.
const surelyNone = 5

// looksAgain reports whether another result that there is no instance is not enough for a deletion.
func (a attempt) looksAgain() bool { return !a.absent && a.missed+1 < surelyNone }

// errUnseen is the reason that a deletion waits after a result that there is no instance.
func errUnseen(answers int) error {
	return provider.Errorf(provider.NotFound,
		"no instance is found yet, and one may have been made that is too new to be seen: looking again (%d of %d)", answers, surelyNone)
}
