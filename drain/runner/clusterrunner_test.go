package runner

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// unserved is a cache of a server that serves nothing.
type unserved struct{ cache.Cache }

func (unserved) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, &meta.NoKindMatchError{}
}

func (unserved) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return &meta.NoKindMatchError{}
}

func TestAServerThatServesNoBudgetsHasNoneAndIsAskedByTheFirstDrain(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Budgets, c.Informers = unserved{}, unserved{} })
	list := g.runner.budgetList
	list.onDemand, list.emptyIfUnserved = true, true
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	stop, err := list.open(ended, nil)
	require.NoError(t, err)
	stop()
	require.False(t, list.unserved, "before a drain wants to know, it waits")
	g.pods.put(pod("n", "a"))
	g.start()
	defer g.stop()
	g.eventually("budgets are known", func() bool { return g.step("n").Counts.Total == 1 })
	g.settled(1)
	budgets, synced, err := g.runner.readBudgets(t.Context(), []*corev1.Pod{pod("n", "a")})
	require.NoError(t, err)
	require.True(t, synced)
	require.Empty(t, budgets)
}

// asked fails a test whose code asks the API server, or the cache of the cluster, for anything but Nodes.
type asked struct {
	ctrlcluster.Cluster
	t *testing.T
}

func (a asked) GetCache() cache.Cache {
	a.t.Error("the cache of the cluster is asked: what it watches has to be listed before anything else goes on")
	return unserved{}
}

func TestARunnerOfAClusterAsksItForNothingBeforeTheFirstDrain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) }))
	defer server.Close()
	mapper := func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil }
	c, err := ctrlcluster.New(&rest.Config{Host: server.URL}, func(o *ctrlcluster.Options) { o.MapperProvider = mapper })
	require.NoError(t, err)
	for _, metrics := range []*Metrics{nil, NewMetrics()} {
		drainer, err := NewClusterRunner(asked{c, t}, metrics)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- drainer.Start(ctx) }()
		_, err = drainer.NamespaceLabels(ctx)
		require.ErrorIs(t, err, ErrNotListed)
		cancel()
		require.NoError(t, <-ended)
	}
}
