package cluster

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/machinist-dev/machinist/noderef"
)

// NodeIndex is the Node index of one cluster and the source of its Node events. It implements noderef.Lookup and is safe
// for concurrent use. Create one with [NewNodeIndex].
type NodeIndex struct {
	// informed reports whether the handler has received the whole first list.
	informed toolscache.ResourceEventHandlerRegistration

	// nodesMu guards nodes. It is held only for single operations, never while a subscriber runs.
	nodesMu sync.RWMutex
	nodes   *noderef.Index

	// eventsMu makes two sequences atomic: update the index, then notify the subscribers; and pass the existing Nodes to a new subscriber,
	// then add it to the list. It is locked before nodesMu.
	eventsMu    sync.Mutex
	subscribers []*nodeSource
}

var _ noderef.Lookup = (*NodeIndex)(nil)

// NewNodeIndex returns the index of the Nodes in a cache, usually manager.GetCache(), for Machines that are matched by rules. It requests
// the cache's typed Node informer, which starts with the cache, and does not wait for it. Call it once per cache, before the cache starts
// if possible; a second index works but uses its own memory. The index follows the cache until that ends; ctx is only for getting the
// informer.
//
// It fails when the cache cannot provide the informer, for example because the scheme lacks core/v1. Missing permissions cause no error:
// HasSynced stays false. The caller needs get, list and watch on nodes.
func NewNodeIndex(ctx context.Context, informers cache.Informers, rules noderef.Rules) (*NodeIndex, error) {
	x := &NodeIndex{nodes: noderef.NewIndex(rules)}
	informer, err := informers.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("node index: getting the Node informer: %w", err)
	}
	x.informed, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { x.onUpdate(nil, obj) },
		UpdateFunc: x.onUpdate,
		DeleteFunc: x.onDelete,
	})
	if err != nil {
		return nil, fmt.Errorf("node index: adding a handler to the Node informer: %w", err)
	}
	return x, nil
}

// HasSynced reports whether the index has every Node of the first list. Before that, a Node that is not found may exist.
func (x *NodeIndex) HasSynced() bool { return x.informed.HasSynced() }

// ByProviderID returns the Nodes with this provider ID, sorted by name. Nodes and slice are views and must not be
// changed; later events do not change the slice.
func (x *NodeIndex) ByProviderID(id string) []*corev1.Node {
	x.nodesMu.RLock()
	defer x.nodesMu.RUnlock()
	return x.nodes.ByProviderID(id)
}

// ByName returns the Node of that name as a view that must not be changed, or nil.
func (x *NodeIndex) ByName(name string) *corev1.Node {
	x.nodesMu.RLock()
	defer x.nodesMu.RUnlock()
	return x.nodes.ByName(name)
}

func (x *NodeIndex) onUpdate(before, obj any) {
	old, _ := before.(*corev1.Node)
	node, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	x.eventsMu.Lock()
	defer x.eventsMu.Unlock()

	x.nodesMu.Lock()
	x.nodes.Add(node)
	x.nodesMu.Unlock()
	if noderef.Significant(old, node, false) {
		x.notify(NodeEvent{Old: old, New: node})
	}
}

// onDelete uses only the name: after a missed watch event the informer reports a tombstone, whose object may be old or
// missing. Nodes have no namespace, so the key is the name.
func (x *NodeIndex) onDelete(obj any) {
	name, _ := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	x.eventsMu.Lock()
	defer x.eventsMu.Unlock()

	x.nodesMu.Lock()
	removed := x.nodes.Remove(name)
	x.nodesMu.Unlock()
	if removed != nil {
		x.notify(NodeEvent{Old: removed})
	}
}

// notify requires eventsMu. The caller must not hold nodesMu, because a mapper looks up Nodes.
func (x *NodeIndex) notify(e NodeEvent) {
	for _, s := range x.subscribers {
		s.notify(e)
	}
}
