package external_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
)

// GoCluster is a Go type of Clusters, as Cluster API's own.
type GoCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              struct {
		Paused bool `json:"paused,omitempty"`
	} `json:"spec,omitzero"`
	Status struct {
		Initialization struct {
			InfrastructureProvisioned bool `json:"infrastructureProvisioned,omitempty"`
			ControlPlaneInitialized   bool `json:"controlPlaneInitialized,omitempty"`
		} `json:"initialization,omitzero"`
	} `json:"status,omitzero"`
}

type GoClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []GoCluster `json:"items"`
}

func (c *GoCluster) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (l *GoClusterList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*GoCluster))
	}
	return &out
}

// goClusters is a manager over a store that has one Cluster, demo, and GoCluster in its scheme.
func goClusters(t *testing.T) (*fake.Store, ctrl.Manager) {
	t.Helper()
	scheme, kind := runtime.NewScheme(), fake.ClusterGVK()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	scheme.AddKnownTypeWithName(kind, &GoCluster{})
	scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind("ClusterList"), &GoClusterList{})
	metav1.AddToGroupVersion(scheme, kind.GroupVersion())
	store := fake.NewStore(fake.Options{Scheme: scheme, Kinds: []fake.ServedKind{{GVK: kind}}})
	require.NoError(t, store.Client().Create(t.Context(), fake.Cluster("demo", fake.WithLabels(map[string]string{"team": "blue"}))))
	mgr, err := ctrl.NewManager(store.RESTConfig(), store.ManagerOptions(ctrl.Options{Logger: logr.Discard(), Scheme: scheme}))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	return store, mgr
}

func TestClustersOfAGoTypeShareTheInformerOfTheManager(t *testing.T) {
	store, mgr := goClusters(t)
	informer, err := mgr.GetCache().GetInformer(t.Context(), &GoCluster{}) // like another controller that watches Clusters
	require.NoError(t, err)
	require.Eventually(t, informer.HasSynced, bound, time.Millisecond)
	clusters, err := external.ClustersFromManager(mgr, external.ClusterOptions{Object: &GoCluster{}})
	require.NoError(t, err)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	require.NoError(t, clusters.Source(func(key types.NamespacedName) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: key}}
	}).Start(t.Context(), queue))

	key := types.NamespacedName{Namespace: "default", Name: "demo"}
	look := func() external.ClusterView {
		view, err := clusters.Of(t.Context(), key)
		require.NoError(t, err)
		return view
	}
	require.Eventually(t, func() bool { return look().Presence == external.Present }, bound, time.Millisecond)
	state := look().State
	require.True(t, state.InfrastructureProvisioned && state.ControlPlaneInitialized && !state.SpecPaused)
	require.Equal(t, "blue", state.Labels["team"])
	require.Equal(t, fake.ClusterGVK(), look().GVK)
	paused := fake.Cluster("demo")
	require.NoError(t, store.Client().Patch(t.Context(), paused, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`))))
	require.Eventually(t, func() bool { return queue.Len() > 0 }, bound, time.Millisecond, "the Machines of the Cluster are woken")
	require.Eventually(t, func() bool { return look().State.SpecPaused }, bound, time.Millisecond)
	require.NoError(t, store.Client().Delete(t.Context(), paused))
	require.Eventually(t, func() bool { return look().Presence == external.Absent }, bound, time.Millisecond)

	watches := store.CountRequests(func(r fake.Request) bool { return r.GVK == fake.ClusterGVK() && r.Verb == "watch" })
	lists := store.CountRequests(func(r fake.Request) bool { return r.GVK == fake.ClusterGVK() && r.Verb == "list" })
	if watches != 1 || lists > 1 {
		t.Errorf("want one watch of Clusters, got %d watches and %d lists", watches, lists)
	}
}

func TestAGoTypeThatIsNoClusterOfTheVersionIsRefused(t *testing.T) {
	_, mgr := goClusters(t)
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(fake.ClusterGVK())
	for name, options := range map[string]external.ClusterOptions{
		"another version":   {Object: &GoCluster{}, Version: contract.V1Beta1},
		"not in the scheme": {Object: &unknownCluster{}},
		"metadata alone":    {Object: metadata},
	} {
		if _, err := external.ClustersFromManager(mgr, options); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

type unknownCluster struct{ GoCluster }
