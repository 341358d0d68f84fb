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

const (
	// metadataLimit is how long all values may take together.
	metadataLimit = 5 * time.Second
	// metadataKept is for how long an answer is used again: less than what clouds grant, so that credentials do not expire in between.
	metadataKept = time.Minute
)

// FromMetadata returns Credentials from the metadata service of the instance that this process runs on. names maps the names of Values to
// what get is asked for, such as paths. An error of get that matches ErrNoCredentials says that there is no such service, or that it has no
// such value: this process does not run on an instance, or that has no identity. ctx ends after five seconds,
// and get has to return then: a pass over a Machine waits for it.
//
// Credentials are read in each pass over a Machine, so an answer is used again for a minute; errors are not kept. Without any value there
// are none, with some of them it is an error of the class Unauthenticated. Safe for concurrent use.
func FromMetadata(names map[string]string, get func(ctx context.Context, path string) ([]byte, error)) Credentials {
	m := &metadata{names: names, get: get}
	return m.read
}

// metadata keeps the last answer.
type metadata struct {
	names map[string]string
	get   func(ctx context.Context, path string) ([]byte, error)

	mu     sync.Mutex
	values Values
	until  time.Time
}

func (m *metadata) read(ctx context.Context) (Values, error) {
	m.mu.Lock()
	values, serves := m.values, time.Now().Before(m.until) //nolint:forbidigo // its tests run where time is virtual
	m.mu.Unlock()
	if serves {
		return maps.Clone(values), nil
	}
	values, err := m.ask(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values, m.until = values, time.Now().Add(metadataKept) //nolint:forbidigo // as above
	return maps.Clone(values), nil
}

func (m *metadata) ask(ctx context.Context) (Values, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataLimit)
	defer cancel()
	values := Values{}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(m.names)) {
		value, err := m.get(ctx, m.names[name])
		switch {
		case errors.Is(err, ErrNoCredentials):
			missing = append(missing, name)
		case err != nil:
			return nil, Errorf(Unavailable, "read %s from the metadata service: %w", name, err)
		default:
			values[name] = value
		}
	}
	switch {
	case len(values) == 0:
		return nil, fmt.Errorf("%w: the metadata service has none", ErrNoCredentials)
	case len(missing) > 0:
		return nil, Errorf(Unauthenticated, "the metadata service has credentials, but not %v", missing)
	}
	return values, nil
}
