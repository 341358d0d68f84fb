package provider

import (
	"errors"
	"fmt"
	"time"
)

// Class says what an error of a Driver means for what follows.
type Class string

// Classes of errors. An error without a class counts as Unavailable.
const (
	// NotFound: the instance does not exist.
	NotFound Class = "NotFound"
	// Invalid: the provider does not accept the request until its content changes.
	Invalid Class = "Invalid"
	// Exhausted: a quota or the provider's capacity is used up.
	Exhausted Class = "Exhausted"
	// RateLimited: too many requests. Error.RetryAfter says when the next one is welcome.
	RateLimited Class = "RateLimited"
	// Unauthenticated: the credentials are missing, wrong or lack rights.
	Unauthenticated Class = "Unauthenticated"
	// Unavailable: the provider did not answer, or failed; it is not known whether it has done what it was asked for.
	Unavailable Class = "Unavailable"
	// Terminal: the instance is lost or will never run.
	Terminal Class = "Terminal"
)

// Error is an error with a Class.
type Error struct {
	Class Class
	// Message says what happened and what a person can do, without secrets. Empty: the text of Err.
	Message string
	// RetryAfter is when the provider wants to be asked again, zero without.
	RetryAfter time.Duration
	// Delayed: no request was made, because a limit of this process would be exceeded. It is no failure: the caller waits for RetryAfter.
	Delayed bool
	// Err is the cause, nil without.
	Err error
}

// Errorf returns an error with a class and a text, which may wrap others with %w.
func Errorf(class Class, format string, args ...any) error {
	return &Error{Class: class, Err: fmt.Errorf(format, args...)}
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Message == "" && e.Err == nil:
		return string(e.Class)
	case e.Message == "":
		return e.Err.Error()
	case e.Err == nil:
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the Class of the first *Error in a chain, Unavailable for any other error and an empty Class for nil.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Class != "" {
		return e.Class
	}
	return Unavailable
}

// IsDelayed reports whether an error says that no request was made yet, and after how long it can be.
func IsDelayed(err error) (after time.Duration, delayed bool) {
	if e, ok := errors.AsType[*Error](err); ok && e.Delayed {
		return e.RetryAfter, true
	}
	return 0, false
}

// retryAfter returns when the provider wants to be asked again, zero without.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// Pause is how long to wait after errors of one Class: the first time for Base, and twice as long each time, up to Max.
type Pause struct {
	Base, Max time.Duration
	// Parks: only a change of the specification or of the credentials is expected to help. Retried nevertheless when Max is not zero, because
	// what the provider does not accept may become acceptable without a change that is seen: after Max, or with a Base as others are.
	Parks bool
}

// Backoff has a Pause for each Class.
type Backoff map[Class]Pause

// DefaultBackoff returns a new Backoff with the defaults.
func DefaultBackoff() Backoff {
	return Backoff{
		NotFound:    {Base: 5 * time.Second, Max: time.Minute},
		Invalid:     {Parks: true},
		Exhausted:   {Base: time.Minute, Max: 10 * time.Minute},
		RateLimited: {Base: 5 * time.Second, Max: 2 * time.Minute},
		// An API server that has just started, and a cloud whose rights spread slowly, refuse for seconds what they allow afterwards.
		Unauthenticated: {Base: 5 * time.Second, Max: 10 * time.Minute, Parks: true},
		Unavailable:     {Base: 2 * time.Second, Max: 2 * time.Minute},
		Terminal:        {Parks: true},
	}
}

// After returns how long to wait after an error, which is one of so many in a row, from 1. spread, from 0 to 1, lengthens the wait by up
// to a tenth, so that many Machines do not come back at once: use a random number. The provider's own RetryAfter is a lower bound. parked
// says that only a change helps; with a wait of zero nothing but a change ends it.
func (b Backoff) After(err error, failures int, spread float64) (wait time.Duration, parked bool) {
	if after, delayed := IsDelayed(err); delayed {
		return after, false
	}
	class := ClassOf(err)
	pause, found := b[class]
	if !found {
		pause = b[Unavailable]
	}
	wait = pause.Max
	doublings, grows := max(failures, 1)-1, !pause.Parks || pause.Base > 0
	if grows && doublings < 32 && pause.Base<<doublings>>doublings == pause.Base {
		wait = min(pause.Base<<doublings, pause.Max)
	}
	if !pause.Parks {
		wait = max(wait, retryAfter(err))
	}
	return wait + time.Duration(min(max(spread, 0), 1)*float64(wait)/10), pause.Parks
}
