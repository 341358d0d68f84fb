package machinepool_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

// late has Nodes shown two seconds late, so that a pool looks at one that it has written itself meanwhile.
func late(gk schema.GroupKind, _ types.NamespacedName) time.Duration {
	if gk.Kind == "Node" {
		return 2 * time.Second
	}
	return 0
}

// drained waits until the Node says so at the API server, which no cache shows yet.
func (w *world) drained(name string) {
	w.t.Helper()
	w.eventually("Node "+name+" is drained", func() string {
		var node corev1.Node
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, &node))
		if node.Annotations[contract.DrainedAnnotation] == "" {
			return "it is not"
		}
		return ""
	})
}

// lateWorld has a pool of one instance, whose Node was drained and is said to be so by no cache yet.
func lateWorld(t *testing.T) (w *world, pool *unstructured.Unstructured) {
	t.Helper()
	w = newWorld(t, worldOptions{lag: late})
	w.create(fake.Node("n", "p://1"))
	pool = w.poolWith(1)
	w.change(fake.InfraMachinePool(contract.V1Beta2, "pool"), func(u *unstructured.Unstructured) {
		set([]any{"p://1"}, "spec", "providerIDList")(u)
		set(int64(1), "status", "replicas")(u)
		set(true, "status", "initialization", "provisioned")(u)
	})
	w.reports(pool, "Running", 1, 1)
	w.writeNode("n", markLeaving)
	w.drained("n")
	return w, pool
}

func TestANodeThatStaysAfterAllServesAgainAlsoWhenItsDrainWasJustWritten(t *testing.T) {
	t.Parallel()
	w, _ := lateWorld(t)
	w.writeNode("n", markStaying)
	w.nodeIs("n", false, false)
}

func TestALabelReachesANodeWhoseDrainWasJustWritten(t *testing.T) {
	t.Parallel()
	w, pool := lateWorld(t)
	w.change(pool, set(map[string]any{"node.cluster.x-k8s.io/kind": "a"}, "spec", "template", "metadata", "labels"))
	w.eventually("the Node has the label", func() string {
		return map[bool]string{true: "it has not"}[w.nodes()[0].Labels["node.cluster.x-k8s.io/kind"] != "a"]
	})
}
