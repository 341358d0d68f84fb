package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Values are credentials by name. Their text form has only the names.
type Values map[string][]byte

// Format implements fmt.Formatter, so that no secret is printed.
func (v Values) Format(to fmt.State, _ rune) { _, _ = fmt.Fprint(to, v.String()) }

// MarshalText implements encoding.TextMarshaler, so that no secret is stored or logged as JSON.
func (v Values) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// String implements fmt.Stringer, which loggers use.
func (v Values) String() string { return fmt.Sprintf("credentials %v", slices.Sorted(maps.Keys(v))) }

// ErrNoCredentials matches the error of Credentials that do not exist, as opposed to Credentials that cannot be read.
var ErrNoCredentials = errors.New("there are no credentials")

// Credentials returns credentials, which the caller must not change. They are read when a Driver needs them, so a call that needs none, or
// gets them elsewhere, does not depend on a Secret. An error that matches ErrNoCredentials means that there are none.
type Credentials func(context.Context) (Values, error)

// Read returns the credentials; nil Credentials have none.
func (c Credentials) Read(ctx context.Context) (Values, error) {
	if c == nil {
		return nil, ErrNoCredentials
	}
	return c(ctx)
}

// FirstOf returns the Credentials of the first source that has any, in order: for example a Secret, the environment, or the metadata
// service of the instance that this process runs on. A source that cannot be read ends the search with its error, because the next source
// could belong to another account.
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

// FromSecret returns Credentials from a Secret. read returns the data of the Secret, from a cache or an API server; found is false when the
// Secret does not exist.
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
// os.LookupEnv. If all variables are empty, there are no credentials; if only some are, that is an error, because a mistyped name must not
// lead to another account.
func FromEnvironment(names map[string]string, lookup func(string) (string, bool)) Credentials {
	return func(context.Context) (Values, error) {
		return allOf(names, "the environment", func(variable string) ([]byte, error) {
			if text, found := lookup(variable); found && text != "" {
				return []byte(text), nil
			}
			return nil, ErrNoCredentials
		})
	}
}

const (
	// metadataLimit is the time for all values of a metadata service together.
	metadataLimit = 5 * time.Second
	// metadataKept is how long the values are used again: less than clouds grant, so that credentials do not expire in between.
	metadataKept = time.Minute
)

// FromMetadata returns Credentials from the metadata service of the instance that this process runs on. names maps the names of Values to
// the arguments of get, such as paths. An error of get that matches ErrNoCredentials means that there is no such service, or no such value.
// ctx ends after five seconds, and get must return then, because a pass over a Machine waits for it. Without any value there are no
// credentials; with only some of them, the error has the class Unauthenticated.
//
// Values are used again for a minute, errors are not: a creation that a cloud has rejected starts again with new credentials, and a
// metadata service may return another token at each read. Safe for concurrent use.
func FromMetadata(names map[string]string, get func(ctx context.Context, path string) ([]byte, error)) Credentials {
	var mu sync.Mutex
	var kept Values
	var until time.Time
	return func(ctx context.Context) (Values, error) {
		mu.Lock()
		last, serves := kept, time.Now().Before(until) //nolint:forbidigo // its tests run where time is virtual
		mu.Unlock()
		if serves {
			return maps.Clone(last), nil
		}
		ctx, cancel := context.WithTimeout(ctx, metadataLimit)
		defer cancel()
		values, err := allOf(names, "the metadata service", func(path string) ([]byte, error) { return get(ctx, path) })
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		kept, until = values, time.Now().Add(metadataKept) //nolint:forbidigo // as above
		return maps.Clone(values), nil
	}
}

// allOf returns the Values of a source that has all of the names, or ErrNoCredentials if it has none.
func allOf(names map[string]string, source string, get func(of string) ([]byte, error)) (Values, error) {
	values := Values{}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		value, err := get(names[name])
		switch {
		case errors.Is(err, ErrNoCredentials):
			missing = append(missing, name)
		case err != nil:
			return nil, Errorf(Unavailable, "read %s from %s: %w", name, source, err)
		default:
			values[name] = value
		}
	}
	switch {
	case len(values) == 0:
		return nil, fmt.Errorf("%w: %s has none", ErrNoCredentials, source)
	case len(missing) > 0:
		return nil, Errorf(Unauthenticated, "%s has credentials, but not %v of %v: set or unset all", source, missing, names)
	}
	return values, nil
}
