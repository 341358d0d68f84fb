package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// History is what happened in a World.
type History struct {
	// Events are its lines, in order.
	Events []Event
	// Choices lead to it again (Replayed). Faults is how much of it went wrong or was done by users.
	Choices []uint32
	Faults  int
}

// Event is one line of a history.
type Event struct {
	// At is the virtual time since the beginning.
	At time.Duration
	// Actor did What, and Answer is what came of it; empty means that it succeeded.
	Actor, What, Answer string
}

// String returns the line.
func (e Event) String() string {
	line := fmt.Sprintf("%9s  %-9s  %s", e.At.Round(time.Millisecond), e.Actor, e.What)
	if e.Answer != "" {
		line += "  ->  " + e.Answer
	}
	return line
}

// Table returns the history as text, a line for each event.
func (h *History) Table() string {
	var text strings.Builder
	for _, e := range h.Events {
		text.WriteString(e.String() + "\n")
	}
	return text.String()
}

// BrokenError is a broken invariant, with everything that happened before.
type BrokenError struct {
	History

	// Invariant is its name, and Message has what is wrong.
	Invariant, Message string
}

// Error implements error.
func (f *BrokenError) Error() string { return f.Invariant + ": " + f.Message }

// Table returns the history as text, with the broken invariant last.
func (f *BrokenError) Table() string { return f.History.Table() + "broken: " + f.Error() + "\n" }

// circle is the error of rounds without an end. It names what is requested most often at this moment, and by whom.
func (w *World) circle() error {
	times, most := map[string]int{}, ""
	for _, e := range slices.Backward(w.history.Events) {
		if e.At != w.Now().Sub(w.begun) {
			break
		}
		what := e.Actor + ": " + e.What
		if times[what]++; times[what] > times[most] || times[what] == times[most] && what < most {
			most = what
		}
	}
	return errors.New("rounds without an end, mostly of " + most)
}
