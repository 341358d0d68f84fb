package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// NodeEvent is a change of one Node. Both Nodes are views that must not be changed.
type NodeEvent struct {
	// Old is the Node before the change; nil for a new Node, and for an existing Node that a late subscriber receives.
	Old *corev1.Node
	// New is the Node after the change; nil for a deletion. If it has the name of Old but another UID, it is another
	// Node: a mapper must handle both.
	New *corev1.Node
}

// NodeMapper returns the requests to enqueue for an event. It is called by one goroutine at a time per index, after the index has processed
// the event. It may look up Nodes in the index, and must not block.
type NodeMapper func(NodeEvent) []reconcile.Request

// Source returns a source for a controller's Watches (builder.WatchesRawSource, controller.Watch). Each start adds a subscriber: it
// receives the Nodes in the index and then every event, until the context of the start ends. The controller starts its workers when the
// index has synced.
func (x *NodeIndex) Source(mapper NodeMapper) source.SyncingSource {
	return &nodeSource{index: x, mapper: mapper}
}

// nodeSource is a source; with a queue, it is a started source: a subscriber.
type nodeSource struct {
	index  *NodeIndex
	mapper NodeMapper
	queue  queue
}

func (s *nodeSource) notify(e NodeEvent) {
	for _, r := range s.mapper(e) {
		s.queue.Add(r)
	}
}

// Start implements source.Source.
func (s *nodeSource) Start(ctx context.Context, q queue) error {
	sub := &nodeSource{s.index, s.mapper, q}
	s.index.subscribe(sub)
	context.AfterFunc(ctx, func() {
		s.index.eventsMu.Lock()
		defer s.index.eventsMu.Unlock()
		s.index.subscribers = slices.DeleteFunc(s.index.subscribers, func(other *nodeSource) bool { return other == sub })
	})
	return nil
}

// WaitForSync implements source.SyncingSource.
func (s *nodeSource) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), s.index.informed.HasSynced) {
		return fmt.Errorf("node index: Nodes are not listed yet; check that they may be listed and watched: %w", context.Cause(ctx))
	}
	return nil
}

// String implements fmt.Stringer, which controller-runtime logs.
func (s *nodeSource) String() string { return "node index" }

func (x *NodeIndex) subscribe(sub *nodeSource) {
	x.eventsMu.Lock()
	defer x.eventsMu.Unlock()

	x.nodesMu.RLock()
	nodes := make([]*corev1.Node, 0, x.nodes.Len())
	for _, name := range x.nodes.Names() {
		nodes = append(nodes, x.nodes.ByName(name))
	}
	x.nodesMu.RUnlock()

	for _, node := range nodes {
		sub.notify(NodeEvent{New: node})
	}
	x.subscribers = append(x.subscribers, sub)
}
