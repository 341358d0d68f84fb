package machinepool_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

// A cache lists Machines in any order, and a message that follows it is written again and again.
func TestMachinesThatADeletionWaitsForAreNamedInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	pool := w.poolWith(7)
	w.hasMachines(7)
	for _, m := range w.machines() {
		w.change(&m, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"test.machinist.dev/hook"}) })
	}
	require.NoError(t, w.client.Delete(t.Context(), pool))
	message := ""
	w.eventually("wait for all of them", func() string {
		if message = conditionOf(w.get(pool), contract.ConditionDeleting).Message; !strings.HasSuffix(message, ", ... (2 more)") {
			return "it says: " + message
		}
		return ""
	})
	require.Equal(t, "Waiting for Machines to be deleted: pool-0, pool-1, pool-2, pool-3, pool-4, ... (2 more)", message)
	for _, m := range w.machines() {
		w.change(&m, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	}
	w.goes(pool)
}

// A webhook or a quota may reject the Machines, and their instances run pods all the same.
func TestInstancesThatGotNoMachineAreDrainedBeforeTheyGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	refuse(w, "create", "Machine", "")
	pool, infra := w.poolWith(1), fake.InfraMachinePool(contract.V1Beta2, "pool")
	w.eventually("the instance is reported, which is later than its Node joins", func() string {
		ids, _, _ := unstructured.NestedStringSlice(w.get(pool).Object, "spec", "providerIDList")
		return map[bool]string{false: "it is not: " + describe(w.get(pool))}[len(ids) == 1]
	})
	w.guarded("pool-0")
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.conditionIs(pool, contract.ConditionDeleting, contract.ReasonDrainingNode)
	w.eventually("an eviction is refused", func() string {
		n := w.store.CountRequests(func(r fake.Request) bool { return r.Subresource == "eviction" && r.Name == "app" })
		return map[bool]string{true: "none yet: " + describe(w.get(pool))}[n == 0]
	})
	require.Nil(t, w.get(infra).GetDeletionTimestamp())
	for _, obj := range guardedPod("pool-0")[1:] {
		require.NoError(t, w.client.Delete(t.Context(), obj))
	}
	w.goes(pool, infra)
}
