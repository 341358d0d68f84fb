package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// MetadataOptions say how the metadata service of a cloud is asked for credentials. Names and Get are required.
type MetadataOptions struct {
	// Names maps the names of Values to what Get is asked for, such as paths.
	Names map[string]string
	// Get asks the service for one value. An error that matches ErrNoCredentials says that there is no such service, or that it has no
	// such value: this process does not run on an instance, or that has no identity. ctx has the values of the first caller's, and ends
	// after Limit.
	Get func(ctx context.Context, path string) ([]byte, error)
	// Limit is how long all values may take together. Default five seconds.
	Limit time.Duration
	// Keep is for how long an answer is used again; less than what the cloud grants, so that credentials do not expire in between. Default
	// one minute.
	Keep time.Duration
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// FromMetadata returns Credentials from the metadata service of the instance that this process runs on. Credentials are read in each pass
// over a Machine, so an answer is used again for a while; errors are not kept. Callers at the same time share one question and its answer.
// Without any value there are none, with some of them it is an error of the class Unauthenticated. Safe for concurrent use.
func FromMetadata(o MetadataOptions) Credentials {
	o.Limit, o.Keep = cmp.Or(o.Limit, 5*time.Second), cmp.Or(o.Keep, time.Minute)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	m := &metadata{options: o}
	return m.read
}

// metadata keeps the last answer.
type metadata struct {
	options MetadataOptions

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

// read returns the answer of a question that all callers share, so that each of them waits for Limit at most.
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
	if m.last != nil && m.last.serves(m.options.Clock.Now()) {
		return m.last
	}
	a := &answer{done: make(chan struct{})}
	m.last = a
	go func() {
		defer close(a.done)
		if a.values, a.err = m.ask(context.WithoutCancel(ctx)); a.err == nil {
			a.until = m.options.Clock.Now().Add(m.options.Keep)
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
	ctx, cancel := context.WithTimeout(ctx, m.options.Limit)
	defer cancel()
	values := Values{}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(m.options.Names)) {
		value, err := m.options.Get(ctx, m.options.Names[name])
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
