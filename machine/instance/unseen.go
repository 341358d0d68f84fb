package instance

import (
	"slices"
	"time"

	"github.com/machinist-dev/machinist/machine/provider"
)

// seenLate is for how long a new instance may not be seen by its Token. surelyNone is how many answers in a row must say during that time
// that there is none: with the pauses of the default Backoff they take more than a minute.
const (
	seenLate   = 5 * time.Minute
	surelyNone = 5
)

// creation is what a process remembers about the calls that create the instance of a Token.
type creation struct {
	// known: this process has decided about a creation. last is when it made the last call that may have made an instance.
	known bool
	last  time.Time
}

// mayHaveMade reports whether a call of Create that ended with an error, or without one, may have made an instance.
func mayHaveMade(err error) bool {
	if _, delayed := provider.IsDelayed(err); delayed {
		return false
	}
	return !slices.Contains([]provider.Class{provider.Invalid, provider.Exhausted, provider.Unauthenticated}, provider.ClassOf(err))
}

// mayBeUnseen reports whether there may be an instance that is too new to be seen. created is when the object was created, zero when that
// is not known: another process may have made an instance for a new object of which this one remembers nothing.
func (c creation) mayBeUnseen(created, now time.Time) bool {
	switch {
	case !c.last.IsZero():
		return now.Sub(c.last) < seenLate
	case c.known || created.IsZero():
		return false
	}
	return now.Sub(created) < seenLate
}

// looksAgain reports whether another answer that there is no instance is not enough for a deletion.
func (a attempt) looksAgain() bool { return !a.absent && a.missed+1 < surelyNone }

// errUnseen is what a deletion waits for after an answer that there is no instance.
func errUnseen(answers int) error {
	return provider.Errorf(provider.NotFound,
		"no instance is found yet, and one may have been made that is too new to be seen: looking again (%d of %d)", answers, surelyNone)
}
