package runner

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// asked fails a test whose code asks the API server, or the cache of the cluster, for anything but Nodes.
type asked struct {
	ctrlcluster.Cluster
	t *testing.T
}

func (a asked) GetCache() cache.Cache {
	a.t.Error("the cache of the cluster is asked: what it watches has to be listed before anything else goes on")
	return nil
}

func TestARunnerOfAClusterAsksItForNothingBeforeTheFirstDrain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) }))
	defer server.Close()
	mapper := func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil }
	c, err := ctrlcluster.New(&rest.Config{Host: server.URL}, func(o *ctrlcluster.Options) { o.MapperProvider = mapper })
	require.NoError(t, err)
	idle, err := NewForCluster(asked{c, t}, nil)
	require.NoError(t, err)
	_, err = idle.NamespaceLabels(t.Context())
	require.ErrorIs(t, err, ErrNotListed)
	for _, metrics := range []*Metrics{nil, NewMetrics()} {
		drainer, err := NewForCluster(asked{c, t}, metrics)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- drainer.Start(ctx) }()
		cancel()
		require.NoError(t, <-ended)
	}
}
