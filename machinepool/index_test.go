package machinepool

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef"
)

// byKey is a cache that answers each index key with the pools of these names.
type byKey struct {
	cache.Cache

	mu    sync.Mutex
	pools map[string][]string
	fails error
}

func (b *byKey) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	b.mu.Lock()
	defer b.mu.Unlock()
	into, ok := list.(*unstructured.UnstructuredList)
	if !ok || o.FieldSelector == nil {
		return b.fails
	}
	for _, name := range b.pools[o.FieldSelector.Requirements()[0].Value] {
		var pool unstructured.Unstructured
		pool.SetNamespace("default")
		pool.SetName(name)
		into.Items = append(into.Items, pool)
	}
	return b.fails
}

func ofName(cluster types.NamespacedName, name string) string {
	return engine.NodeKeys(cluster, "", name, noderef.Rules{})[0]
}

func ofID(id string) string {
	return engine.NodeKeys(types.NamespacedName{Namespace: "default", Name: "c"}, id, "", noderef.Rules{})[0]
}

func requestFor(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
}

func TestAMachineWakesThePoolThatControlsIt(t *testing.T) {
	p, _ := acting(t, &api{})
	for name, tc := range map[string]struct {
		owner []metav1.OwnerReference
		want  []reconcile.Request
	}{
		"no pool's": {},
		"its pool's": {
			[]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "MachinePool", Name: "pool", Controller: new(true)}},
			[]reconcile.Request{requestFor("pool")}},
		"a pool's that is no controller": {[]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachinePool", Name: "pool"}},
			nil},
		"a set's": {
			[]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "pool", Controller: new(true)}}, nil},
		"a pool's of another API": {
			[]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "MachinePool", Name: "pool", Controller: new(true)}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", OwnerReferences: tc.owner}}
			require.Equal(t, tc.want, p.env.poolsOfMachine(t.Context(), m))
		})
	}
}

func TestAPoolIsFoundByWhatItNamesInItsOwnClusterAlone(t *testing.T) {
	cluster := types.NamespacedName{Namespace: "default", Name: "c"}
	state := &contract.MachinePoolState{}
	state.Key, state.ClusterName = testPool, "c"
	state.ProviderIDs, state.Nodes = []string{"p://a", ""}, []contract.NodeRef{{Name: "n"}}
	state.Template.Infrastructure = contract.Ref{Group: "g", Kind: "Infra", Name: "infra"}
	crd := contract.CRDName(state.Template.Infrastructure.GroupKind())
	want := []string{
		labelKey(testPool.Name), "cluster:" + testPool.Namespace + "/c",
		engine.CRDKey(crd), engine.RefKey(crd, "infra"), ofID("p://a"), ofName(cluster, "n"),
	}
	if diff := cmp.Diff(want, indexKeys(state, cluster, noderef.Rules{})); diff != "" {
		t.Errorf("without a bootstrap config, and without an ID that is none (-want +got):\n%s", diff)
	}
	var bare contract.MachinePoolState
	bare.Key = testPool
	require.Equal(t, []string{labelKey(testPool.Name)}, indexKeys(&bare, cluster, noderef.Rules{}))
}

func TestANodeWakesThePoolsOfItsCluster(t *testing.T) {
	p, _ := acting(t, &api{})
	cluster := types.NamespacedName{Namespace: "default", Name: "c"}
	p.env.frame.Ports.Cache = &byKey{pools: map[string][]string{
		ofName(cluster, "n"): {"recorded", "both"}, ofID("p://a"): {"both", "lists"},
		ofID("p://b"): {"rival"}, ofName(types.NamespacedName{}, "n"): {"elsewhere"},
	}}
	before, after := testNode("n", "p://a"), testNode("n", "p://b")
	want := []reconcile.Request{requestFor("recorded"), requestFor("both"), requestFor("lists"), requestFor("rival")}
	wakes := func(nodes ...*corev1.Node) []reconcile.Request { // a queue has each once
		return sets.New(p.env.poolsOfNode(t.Context(), cluster, nodes...)...).UnsortedList()
	}
	require.ElementsMatch(t, want, wakes(nil, before, after))
	require.ElementsMatch(t, want[:2], wakes(testNode("n", "")))
	p.env.frame.Options.WatchFilter = "mine"
	require.Empty(t, p.env.poolsOfNode(t.Context(), cluster, before), "they are others' to look after")
}

// Two clusters of a namespace may have instances of the same ID.
func TestAPoolClaimsNodesOfItsOwnClusterAlone(t *testing.T) {
	p, _ := acting(t, &api{})
	p.env.frame.Ports.Cache = &byKey{pools: map[string][]string{engine.ProviderIDKey("p://a"): {"pool"}}}
	for of, want := range map[types.NamespacedName]int{{}: 1, {Namespace: "default", Name: "c"}: 0} {
		claims, err := p.env.claimsOn(t.Context(), of, testNode("n", "p://a"))
		require.Len(t, claims, want)
		require.NoError(t, err)
	}
}
