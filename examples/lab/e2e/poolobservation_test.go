//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observation is all that the API server has seen of pools, their Nodes and their budget, in the order in which each was written.
type observation struct {
	t     *testing.T
	mu    sync.Mutex
	pools []*unstructured.Unstructured
	nodes []nodeChange
	// low is the fewest healthy pods beside how many there should be, while guarded is true.
	low     int32
	guarded bool
}

type nodeChange struct {
	version uint64
	name    string
	id      string
	ready   bool
}

// observe follows pools, Nodes and the budget from now on.
func (p *poolScene) observe() *observation {
	p.t.Helper()
	o := &observation{t: p.t}
	pools := &unstructured.UnstructuredList{}
	pools.SetGroupVersionKind(fake.MachinePoolGVK().GroupVersion().WithKind("MachinePoolList"))
	p.follow(pools, func(_ watch.EventType, obj client.Object) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			o.pools = append(o.pools, u.DeepCopy())
		}
	}, o)
	p.follow(&corev1.NodeList{}, func(kind watch.EventType, obj client.Object) {
		if node, ok := obj.(*corev1.Node); ok {
			o.nodes = append(o.nodes, nodeChange{
				version(p.t, obj), node.Name, node.Spec.ProviderID, kind != watch.Deleted && node.DeletionTimestamp == nil && noderef.Ready(node),
			})
		}
	}, o)
	p.follow(&policyv1.PodDisruptionBudgetList{}, func(_ watch.EventType, obj client.Object) {
		if b, ok := obj.(*policyv1.PodDisruptionBudget); ok && o.guarded {
			o.low = min(o.low, b.Status.CurrentHealthy-b.Status.DesiredHealthy)
		}
	}, o)
	return o
}

// guard says whether the budget is to hold from now on.
func (o *observation) guard(holds bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.guarded = holds
}

// follow hands over what there is of a kind, and every change. A watch that an overloaded API server ends goes on where it was.
func (p *poolScene) follow(list client.ObjectList, do func(watch.EventType, client.Object), o *observation) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	take := func(e watch.Event) {
		if obj, ok := e.Object.(client.Object); ok {
			o.mu.Lock()
			defer o.mu.Unlock()
			do(e.Type, obj)
		}
	}
	require.NoError(p.t, p.client.List(ctx, list))
	require.NoError(p.t, apimeta.EachListItem(list, func(obj runtime.Object) error {
		take(watch.Event{Type: watch.Added, Object: obj})
		return nil
	}))
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return p.client.Watch(ctx, list.DeepCopyObject().(client.ObjectList), &client.ListOptions{Raw: &options})
		},
	})
	require.NoError(p.t, err)
	done := make(chan struct{})
	p.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			take(e)
		}
		if ctx.Err() == nil {
			p.t.Error("a watch of the test ended: something would be missing")
		}
	}()
}

func version(t *testing.T, obj client.Object) uint64 {
	v, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Errorf("resourceVersion %q: %v", obj.GetResourceVersion(), err)
	}
	return v
}

// behind says what the watches have not told yet of a pool that has come to nothing: each of them may be late.
func (o *observation) behind() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	listed, ready := map[string]bool{}, map[string]bool{} // other Nodes are not the pool's
	for _, u := range o.pools {
		for _, id := range statusOf(o.t, u).ProviderIDs {
			listed[id] = true
		}
	}
	for _, change := range o.nodes {
		if ready[change.name] = change.ready && listed[change.id]; !ready[change.name] {
			delete(ready, change.name)
		}
	}
	if len(o.pools) == 0 || len(ready) > 0 || statusOf(o.t, o.pools[len(o.pools)-1]).ReadyReplicas.Or(-1) != 0 {
		return fmt.Sprintf("%d Nodes, after %d versions of the pool", len(ready), len(o.pools))
	}
	return ""
}

// areRight checks every status: references are sorted, each once; counters agree with each other; a pool that is Running has what it
// must have; and each count of ready replicas is one that there was, of the instances that the pool then listed, since the status
// before the last.
func (o *observation) areRight() {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	var before contract.MachinePoolState
	checked := 0
	versions := []uint64{0, 0}
	for _, u := range o.pools {
		s := statusOf(o.t, u)
		ready, available := s.ReadyReplicas.Or(0), s.AvailableReplicas.Or(0)
		names := make([]string, 0, len(s.Nodes))
		for _, ref := range s.Nodes {
			names = append(names, ref.Name)
		}
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			o.t.Errorf("version %s: references %v", u.GetResourceVersion(), names)
		}
		if available > ready || int(ready) > len(names) || ready != s.NodeReadyReplicas.Or(0) {
			o.t.Errorf("version %s: %d ready, %d available, %d Nodes", u.GetResourceVersion(), ready, available, len(names))
		}
		if s.Phase == "Running" && s.ObservedGeneration == s.Generation && ready != s.Replicas.Or(-1) {
			o.t.Errorf("version %s: Running with %d of %d", u.GetResourceVersion(), ready, s.Replicas.Or(-1))
		}
		if ready != before.ReadyReplicas.Or(0) {
			checked++
			now := version(o.t, u)
			if !o.wasTrue(int(ready), s.ProviderIDs, versions[0], now) {
				o.t.Errorf("version %s: there were never %d ready Nodes of the %d instances", u.GetResourceVersion(), ready, len(s.ProviderIDs))
			}
			versions = []uint64{versions[1], now}
		}
		before = s
	}
	if o.low < 0 {
		o.t.Errorf("a budget was exceeded by %d pods", -o.low)
	}
	o.t.Logf("%d versions of the pool, %d counts, %d changes of Nodes", len(o.pools), checked, len(o.nodes))
	if checked < 4 {
		o.t.Errorf("want counts on the way, got %d", checked)
	}
}

// wasTrue says whether at some time between two versions so many instances had a ready Node.
func (o *observation) wasTrue(want int, ids []string, from, to uint64) bool {
	listed := make(map[string]bool, len(ids))
	for _, id := range ids {
		listed[id] = true
	}
	ready := map[string]bool{}
	for _, change := range o.nodes {
		if change.version > to {
			break
		}
		if change.version > from && len(ready) == want {
			return true
		}
		if change.ready && listed[change.id] {
			ready[change.name] = true
		} else {
			delete(ready, change.name)
		}
	}
	return len(ready) == want
}
