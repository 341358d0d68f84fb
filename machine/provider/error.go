package provider

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Class classifies an error of a Driver for the caller's reaction.
type Class string

// Classes of errors. An error without a class counts as Unavailable.
const (
	// NotFound: the instance does not exist.
	NotFound Class = "NotFound"
	// Invalid: the provider rejects the request until its content changes.
	Invalid Class = "Invalid"
	// Exhausted: a quota or the provider's capacity is used up.
	Exhausted Class = "Exhausted"
	// RateLimited: too many requests. Error.RetryAfter is the delay before the next one.
	RateLimited Class = "RateLimited"
	// Unauthenticated: the credentials are missing, wrong or lack rights.
	Unauthenticated Class = "Unauthenticated"
	// Unavailable: the provider did not respond, or failed; it is unknown whether it has carried out the request.
	Unavailable Class = "Unavailable"
	// Terminal: the instance is lost or will never run.
	Terminal Class = "Terminal"
)

// Error is an error with a Class.
type Error struct {
	Class Class
	// RetryAfter is the provider's delay before the next request, or zero.
	RetryAfter time.Duration
	// Delayed: no request was made, because a limit of this process would be exceeded. It is not a failure: the caller waits for RetryAfter.
	Delayed bool
	// Err describes what happened and what a person can do, without secrets. Nil: the text is the Class.
	Err error
}

// Errorf returns an error with a class and a text, which may wrap others with %w.
func Errorf(class Class, format string, args ...any) error {
	return &Error{Class: class, Err: fmt.Errorf(format, args...)}
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return string(e.Class)
	}
	return e.Err.Error()
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

// IsDelayed reports whether an error means that no request was made yet.
func IsDelayed(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Delayed
}

// retryAfter returns the delay before the next request, or zero.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// Pause is the delay after errors of one Class: Base for the first error, then doubled each time, up to Max. Without Base it is Max.
type Pause struct{ Base, Max time.Duration }

// Backoff has a Pause for each Class. A class without a Pause is delayed as in DefaultBackoff.
type Backoff map[Class]Pause

// DefaultBackoff returns a new Backoff with the defaults.
func DefaultBackoff() Backoff {
	return Backoff{
		NotFound:    {Base: 5 * time.Second, Max: time.Minute},
		Invalid:     {Max: 10 * time.Minute},
		Exhausted:   {Base: time.Minute, Max: 10 * time.Minute},
		RateLimited: {Base: 5 * time.Second, Max: 2 * time.Minute},
		// An API server that has just started, and a cloud whose rights spread slowly, reject for seconds what they allow afterwards.
		Unauthenticated: {Base: 5 * time.Second, Max: 10 * time.Minute},
		Unavailable:     {Base: 2 * time.Second, Max: 2 * time.Minute},
		Terminal:        {Max: 10 * time.Minute},
	}
}

// After returns the delay after an error; failures is the number of errors in a row, from 1. spread, from 0 to 1, lengthens the delay by up
// to a tenth, so that many Machines are not retried at once: use a random number. The provider's own RetryAfter is a lower bound.
func (b Backoff) After(err error, failures int, spread float64) time.Duration {
	if IsDelayed(err) {
		return retryAfter(err)
	}
	class := ClassOf(err)
	pause := cmp.Or(b[class], DefaultBackoff()[class], DefaultBackoff()[Unavailable])
	wait, longest := cmp.Or(pause.Base, pause.Max), max(pause.Base, pause.Max)
	for i := 1; i < failures && wait < longest; i++ {
		wait *= 2
	}
	wait = max(min(wait, longest), retryAfter(err))
	return wait + time.Duration(min(max(spread, 0), 1)*float64(wait)/10)
}
