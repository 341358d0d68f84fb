package machinepool_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
)

// readyReplicas waits until the status of a pool has a number of ready replicas.
func (w *world) readyReplicas(pool *unstructured.Unstructured, want int64) {
	w.t.Helper()
	w.eventually("count the ready replicas", func() string {
		fresh := w.get(pool)
		if n, _, _ := unstructured.NestedInt64(fresh.Object, "status", "readyReplicas"); n != want {
			return describe(fresh)
		}
		return ""
	})
}

func TestOnlyAStatusThatHidesNothingWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, pool: machinepool.Options{
		Options: pass.Options{StatusDelay: time.Hour},
	}})
	pool := w.poolWith(3)
	w.says(pool, "Running", 3, 3) // is told at once
	w.setReady("pool-0", corev1.ConditionFalse)
	w.readyReplicas(pool, 2) // and so is what was lost
	w.setReady("pool-1", corev1.ConditionFalse)
	w.readyReplicas(pool, 1)
	w.setReady("pool-0", corev1.ConditionTrue)
	w.settles()
	w.readyReplicas(pool, 1) // what was gained can wait
	w.setReady("pool-1", corev1.ConditionTrue)
	w.says(pool, "Running", 3, 3)
}

func TestANodeThatJoinsInADeletionIsRecordedWithoutDelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{pool: machinepool.Options{Options: pass.Options{StatusDelay: time.Hour}}})
	pool, infra := w.poolOf("p://1")
	w.listed(infra, "p://1", "p://2")
	w.eventually("the instances are recorded", func() string {
		ids, _, _ := unstructured.NestedStringSlice(w.get(pool).Object, "spec", "providerIDList")
		return map[bool]string{false: "they are not"}[len(ids) == 2]
	})
	w.writeNode("n-0", `{"metadata":{"finalizers":["test.machinist.dev/slow"]}}`)
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.conditionIs(pool, contract.ConditionDeleting, contract.ReasonDeletingNode)
	late := fake.Node("late", "p://2")
	w.create(late)
	w.eventually("the Node that joined late is deleted", func() string {
		err := w.client.Get(t.Context(), client.ObjectKeyFromObject(late), late)
		return map[bool]string{true: "it is there"}[client.IgnoreNotFound(err) != nil || err == nil]
	})
	w.writeNode("n-0", `{"metadata":{"finalizers":null}}`)
	w.goes(pool, fake.InfraMachinePool(contract.V1Beta2, "pool"))
}
