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
