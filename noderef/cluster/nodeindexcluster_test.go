package cluster

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/noderef"
)

// cluster is a real controller-runtime cache whose informer of one kind lists and watches a list in memory.
type cluster struct {
	*fcache.FakeControllerSource
	cache cache.Cache
}

// listWatch does not support streaming lists; otherwise the informer would wait for one forever.
type listWatch struct{ *fcache.FakeControllerSource }

func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

func newCluster(t testing.TB, nodes ...*corev1.Node) *cluster {
	t.Helper()
	c := clusterOf(t, "Node", meta.RESTScopeRoot)
	for _, n := range nodes {
		c.Add(n)
	}
	return c
}

func clusterOf(t testing.TB, kind string, scope meta.RESTScope) *cluster {
	t.Helper()
	c := &cluster{FakeControllerSource: fcache.NewFakeControllerSource()}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), scope)
	var err error
	c.cache, err = cache.New(&rest.Config{Host: "http://127.0.0.1:0"}, cache.Options{
		Scheme: scheme.Scheme,
		Mapper: mapper,
		NewInformer: func(_ toolscache.ListerWatcher, o runtime.Object, resync time.Duration,
			indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(listWatch{c.FakeControllerSource}, o, resync, indexers)
		},
	})
	require.NoError(t, err)
	return c
}

// start runs the cache and ends it with the test.
func (c *cluster) start(t testing.TB) {
	t.Helper()
	ctx := t.Context() // ends before the clean-up runs
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.cache.Start(ctx)
	}()
	t.Cleanup(func() {
		<-ended // before Shutdown, which keeps a lock that a running reflector would wait for
		c.Shutdown()
	})
}

func newIndex(t testing.TB, c *cluster) *NodeIndex {
	t.Helper()
	x, err := NewNodeIndex(t.Context(), c.cache, noderef.Rules{})
	require.NoError(t, err)
	return x
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, time.Millisecond, what)
}

func newNode(name, uid, providerID string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
	}
}

func newQueue(t testing.TB) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	return q
}

// recorder is a mapper that records each event as "old UID>new UID".
type recorder struct {
	mu     sync.Mutex
	events []string
	before func(NodeEvent) // runs first, for tests that block a subscriber
}

func (r *recorder) mapper(e NodeEvent) []reconcile.Request {
	if r.before != nil {
		r.before(e)
	}
	text, name := "", ""
	if e.Old != nil {
		text, name = string(e.Old.UID), e.Old.Name
	}
	text += ">"
	if e.New != nil {
		text, name = text+string(e.New.UID), e.New.Name
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, text)
	return requests(name)
}

func (r *recorder) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *recorder) count() int { return len(r.seen()) }
