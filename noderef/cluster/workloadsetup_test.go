package cluster

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/machinist-dev/machinist/noderef"
)

// running is a cluster that another component runs. It counts the event handlers on its Node informer.
type running struct {
	ctrlcluster.Cluster
	config         *rest.Config
	added, removed atomic.Int32
}

func (r *running) GetConfig() *rest.Config { return r.config }

func (r *running) GetCache() cache.Cache { return &counted{Cache: r.Cluster.GetCache(), of: r} }

type counted struct {
	cache.Cache
	of *running
}

func (c *counted) GetInformer(ctx context.Context, obj client.Object, o ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, obj, o...)
	return &countedInformer{informer, c.of}, err
}

type countedInformer struct {
	cache.Informer
	of *running
}

func (i *countedInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.of.added.Add(1)
	return i.Informer.AddEventHandler(h)
}

func (i *countedInformer) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	i.of.removed.Add(1)
	return i.Informer.RemoveEventHandler(r)
}

func TestAConnectionToARunningClusterLeavesNoIndexOnItsCache(t *testing.T) {
	for name, tc := range map[string]struct {
		config *rest.Config
		reason Reason
	}{
		"that ends":             {&rest.Config{Host: "http://127.0.0.1:0"}, ReasonNone},
		"that cannot be set up": {&rest.Config{Host: "http://127.0.0.1:0/%"}, ReasonSetupFailed},
	} {
		t.Run(name, func(t *testing.T) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
			c, err := ctrlcluster.New(&rest.Config{Host: "http://127.0.0.1:0"}, func(o *ctrlcluster.Options) {
				o.Logger = logr.Discard()
				o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
			})
			require.NoError(t, err)
			r := &running{Cluster: c, config: tc.config}
			clusters, err := New(Options[Workload]{Access: Same(r), Setup: WorkloadOptions{Matching: noderef.Rules{}}.Setup()})
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- clusters.Start(ctx) }()
			require.Eventually(t, func() bool {
				view, _ := clusters.Get(types.NamespacedName{Name: "c"})
				return view.Reason == tc.reason
			}, time.Minute, time.Millisecond)
			if tc.reason == ReasonNone {
				require.Zero(t, r.removed.Load())
			} else {
				require.Eventually(t, func() bool { return r.removed.Load() > 0 }, time.Minute, time.Millisecond, "also before the end")
			}
			stop()
			require.NoError(t, <-ended)
			require.NotZero(t, r.added.Load())
			require.Eventually(t, func() bool { return r.removed.Load() == r.added.Load() }, time.Minute, time.Millisecond)
		})
	}
}
