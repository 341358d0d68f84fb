package api_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/manager/api"
)

// cachedFile is an object as an API server has sent it; one Machine of a fleet has one of each kind.
func cachedFile(t testing.TB, kind string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "cached", strings.ToLower(kind)+".json"))
	require.NoError(t, err)
	return raw
}

// cachedKind returns a function that decodes the object of a kind as the client of the manager does.
func cachedKind(t testing.TB, kind string) func() client.Object {
	t.Helper()
	raw := cachedFile(t, kind)
	all := k8sruntime.NewScheme()
	require.NoError(t, scheme.AddToScheme(all))
	require.NoError(t, api.ClusterAPI.AddToScheme(all))
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, all, all, json.SerializerOptions{})
	into := func(obj client.Object) client.Object {
		_, _, err := decoder.Decode(raw, nil, obj)
		require.NoError(t, err)
		return obj
	}
	switch kind {
	case "Machine":
		return func() client.Object { return into(&api.Machine{}) }
	case "Node":
		node, _ := into(&corev1.Node{}).(*corev1.Node)
		wire, err := node.Marshal()
		require.NoError(t, err)
		return func() client.Object {
			node := &corev1.Node{}
			require.NoError(t, node.Unmarshal(wire))
			return node
		}
	}
	return func() client.Object {
		u := &unstructured.Unstructured{}
		require.NoError(t, u.UnmarshalJSON(raw))
		return u
	}
}

// BenchmarkHeapOfACachedMachine prints the live heap of the objects of one Machine in the manager's cache.
func BenchmarkHeapOfACachedMachine(b *testing.B) {
	for _, kind := range []string{"Machine", "FakeMachine", "FakeConfig", "Node"} {
		b.Run(kind, func(b *testing.B) {
			decode, trim := cachedKind(b, kind), cache.TransformStripManagedFields()
			const n = 2000
			live := func() float64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&m)
				return float64(m.HeapAlloc)
			}
			for b.Loop() {
				all := make([]any, n)
				before := live()
				for i := range all {
					var err error
					all[i], err = trim(decode())
					require.NoError(b, err)
				}
				b.ReportMetric((live()-before)/n, "B/object")
				runtime.KeepAlive(all)
			}
		})
	}
}
