package testenv

import (
	"context"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Meeting is a client whose patches of the status of one kind wait for each other, until so many have begun: for a test that a reconciler
// sends them at the same time. Safe for concurrent use.
type Meeting struct {
	client.Client

	kind string
	of   int
	all  chan struct{}

	mu    sync.Mutex
	names []string
}

// Meet returns a client for a number of objects of a kind, such as Machine.
func Meet(c client.Client, kind string, of int) *Meeting {
	return &Meeting{Client: c, kind: kind, of: of, all: make(chan struct{})}
}

// Names are those of the objects whose patches have begun, in this order.
func (m *Meeting) Names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.names)
}

// Status implements client.Client.
func (m *Meeting) Status() client.SubResourceWriter { return meetingStatus{m.Client.Status(), m} }

type meetingStatus struct {
	client.SubResourceWriter

	meeting *Meeting
}

func (s meetingStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if m := s.meeting; obj.GetObjectKind().GroupVersionKind().Kind == m.kind {
		m.begin(obj.GetName())
		select {
		case <-m.all:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.SubResourceWriter.Patch(ctx, obj, patch, options...)
}

func (m *Meeting) begin(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names = append(m.names, name); len(m.names) == m.of {
		close(m.all)
	}
}
