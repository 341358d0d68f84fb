package userdata

import "fmt"

// Secret is text that is never printed, logged or stored by accident: fmt, JSON and loggers show a fixed word instead, even if a Secret is
// an unexported field of another type. The zero value has no text. Safe for concurrent use.
type Secret struct {
	value *string // behind a pointer, because fmt calls no methods of unexported fields and would print a string
}

const redacted = "REDACTED"

// NewSecret returns text as a Secret; empty text is the zero value.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{value: &text}
}

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Equal reports whether both have the same text; == compares identities.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// IsZero reports whether there is no text.
func (s Secret) IsZero() bool { return s.value == nil }

// String shows whether there is text, but not the text.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// Format implements fmt.Formatter for all verbs.
func (s Secret) Format(to fmt.State, _ rune) { _, _ = fmt.Fprint(to, s.String()) }

// MarshalText implements encoding.TextMarshaler, which JSON, YAML and structured loggers use.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
