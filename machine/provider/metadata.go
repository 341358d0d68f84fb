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
// such value: this process does not run on an instance, or that has no identity. ctx has the values of the first caller's, and ends after
// five seconds.
//
// Credentials are read in each pass over a Machine, so an answer is used again for a minute; errors are not kept. Callers at the same time
// share one question and its answer. Without any value there are none, with some of them it is an error of the class Unauthenticated. Safe
// for concurrent use.
func FromMetadata(names map[string]string, get func(ctx context.Context, path string) ([]byte, error)) Credentials {
	m := &metadata{names: names, get: get}
	return m.read
}

// metadata keeps the last answer.
type metadata struct {
	names map[string]string
	get   func(ctx context.Context, path string) ([]byte, error)

	mu   sync.Mutex
	last *answer
}

// answer is what the service says. The other members are set when done is closed.
type answer struct {
	done   chan struct{}
	values Values
	err    error
	until  time.Time // zero for a failure
}

// read returns the answer of a question that all callers share, so that each of them waits for metadataLimit at most.
func (m *metadata) read(ctx context.Context) (Values, error) {
	a := m.answer(ctx)
	select {
	case <-a.done:
		return maps.Clone(a.values), a.err
	case <-ctx.Done():
		return nil, Errorf(Unavailable, "wait for the metadata service: %w", context.Cause(ctx))
	}
}

// answer returns the answer that is awaited or can be used again, or else asks. The end of ctx does not end the question: others may wait.
func (m *metadata) answer(ctx context.Context) *answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last != nil && m.last.serves(time.Now()) { //nolint:forbidigo // its tests run where time is virtual
		return m.last
	}
	a := &answer{done: make(chan struct{})}
	m.last = a
	go func() {
		defer close(a.done)
		if a.values, a.err = m.ask(context.WithoutCancel(ctx)); a.err == nil {
			a.until = time.Now().Add(metadataKept) //nolint:forbidigo // as above
		}
	}()
	return a
}

func (a *answer) serves(now time.Time) bool {
	select {
	case <-a.done:
		return now.Before(a.until)
	default:
		return true
	}
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
