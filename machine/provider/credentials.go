package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Values are credentials by name. Their text form has only the names.
type Values map[string][]byte

// Format implements fmt.Formatter, so that no secret is printed.
func (v Values) Format(to fmt.State, _ rune) { _, _ = fmt.Fprint(to, v.String()) }

// MarshalText implements encoding.TextMarshaler, so that no secret is stored or logged as JSON.
func (v Values) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// String implements fmt.Stringer, which loggers use.
func (v Values) String() string { return fmt.Sprintf("credentials %v", slices.Sorted(maps.Keys(v))) }

// ErrNoCredentials matches the error of Credentials that do not exist, as opposed to ones that cannot be read.
var ErrNoCredentials = errors.New("there are no credentials")

// Credentials returns credentials, which the caller must not change. They are read when a Driver needs them, not before: a call that needs
// none, or gets them elsewhere, does not depend on a Secret. An error that matches ErrNoCredentials says that there are none.
type Credentials func(context.Context) (Values, error)

// Read returns the credentials; nil Credentials have none.
func (c Credentials) Read(ctx context.Context) (Values, error) {
	if c == nil {
		return nil, ErrNoCredentials
	}
	return c(ctx)
}

// FirstOf returns the Credentials of the first source that has any, in order: for example a Secret, the environment, the metadata service
// of the instance that this process runs on. A source that cannot be read ends the search with its error: another one could be that of
// another account.
func FirstOf(sources ...Credentials) Credentials {
	return func(ctx context.Context) (Values, error) {
		for _, source := range sources {
			values, err := source.Read(ctx)
			if !errors.Is(err, ErrNoCredentials) {
				return values, err
			}
		}
		return nil, ErrNoCredentials
	}
}

// FromSecret returns Credentials from a Secret, which read returns the data of: from a cache, or from an API server. found is false when
// the Secret does not exist.
func FromSecret(
	namespace, name string, read func(ctx context.Context, namespace, name string) (data map[string][]byte, found bool, err error),
) Credentials {
	return func(ctx context.Context) (Values, error) {
		data, found, err := read(ctx, namespace, name)
		switch {
		case err != nil:
			return nil, Errorf(Unavailable, "read Secret %s/%s: %w", namespace, name, err)
		case !found:
			return nil, fmt.Errorf("%w: Secret %s/%s does not exist", ErrNoCredentials, namespace, name)
		}
		return data, nil
	}
}

// FromEnvironment returns Credentials from environment variables: names maps the names of Values to variables, and lookup is usually
// os.LookupEnv. Without a value for each there are none; with some of them it is an error, because a mistyped name must not lead to another
// account.
func FromEnvironment(names map[string]string, lookup func(string) (string, bool)) Credentials {
	return func(context.Context) (Values, error) {
		values := Values{}
		var missing []string
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if text, found := lookup(names[name]); found && text != "" {
				values[name] = []byte(text)
			} else {
				missing = append(missing, names[name])
			}
		}
		switch {
		case len(values) == 0:
			return nil, ErrNoCredentials
		case len(missing) > 0:
			return nil, Errorf(Unauthenticated, "the environment has credentials, but not %v: set or unset all", missing)
		}
		return values, nil
	}
}
