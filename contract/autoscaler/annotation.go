package autoscaler

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Errors that an AnnotationError matches with errors.Is.
var (
	// ErrAnnotation matches every error about the value of an annotation.
	ErrAnnotation = errors.New("bad annotation")
	// ErrMinSize and ErrMaxSize say that a size is not a whole number, or below zero.
	ErrMinSize = errors.New("bad minimum size")
	ErrMaxSize = errors.New("bad maximum size")
	// ErrMinAboveMax says that the minimum is above the maximum, which is 0 when its annotation is missing.
	ErrMinAboveMax = errors.New("minimum size above maximum size")
)

// AnnotationError says what is wrong with one annotation. It matches ErrAnnotation and the error that it unwraps to.
type AnnotationError struct {
	// Key is the annotation's key.
	Key string
	// Found is what stands there, or the part of it that is wrong, quoted and cut to a readable length; or "nothing".
	Found string
	// Want is what the autoscaler can read.
	Want string
	// Effect is what the autoscaler does about it.
	Effect string

	err error
}

// Error names the annotation, what was found, what is wanted and what happens otherwise.
func (e *AnnotationError) Error() string {
	return fmt.Sprintf("annotation %s: found %s, want %s (%s)", e.Key, e.Found, e.Want, e.Effect)
}

// Is makes errors.Is(err, ErrAnnotation) true.
func (e *AnnotationError) Is(target error) bool { return target == ErrAnnotation }

// Unwrap returns ErrMinSize, ErrMaxSize or ErrMinAboveMax, or nil.
func (e *AnnotationError) Unwrap() error { return e.err }

// maxQuote keeps messages readable: values come from people, and may have any length.
const maxQuote = 60

// quoted shows a text in quotes, cut to maxQuote bytes.
func quoted(text string) string {
	if len(text) <= maxQuote {
		return strconv.Quote(text)
	}
	end := maxQuote
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%q... (%d bytes)", text[:end], len(text))
}

// joined returns the errors as one, nil when there are none.
func joined(problems []*AnnotationError) error {
	errs := make([]error, 0, len(problems))
	for _, p := range problems {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// entry is one part of an annotation that holds a list.
type entry struct {
	text string
	at   int
}

// entries splits a list at commas. An empty entry, as after a trailing comma, holds nothing that could get lost.
func entries(list string) []entry {
	var found []entry
	for i, text := range strings.Split(list, ",") {
		if strings.TrimSpace(text) != "" {
			found = append(found, entry{text: text, at: i + 1})
		}
	}
	return found
}

// describe shows an entry with its place in the list.
func (e entry) describe() string { return fmt.Sprintf("%s (entry %d)", quoted(e.text), e.at) }
