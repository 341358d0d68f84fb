//go:build e2e

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// TestE2EAFleetCostsPerMachineWhatOneMachineCosts creates 300 Machines at once, as the measurement of Cluster API v1.13.6
// does (17.7 writes per Machine to Running, 10.1 to delete it), and counts at the API server. Times are printed, not judged.
func TestE2EAFleetCostsPerMachineWhatOneMachineCosts(t *testing.T) {
	const fleet = 300
	w := newWorld(t, worldOptions{})
	audit := w.plane.Audit()
	mark, err := audit.Mark()
	require.NoError(t, err)
	start := time.Now()
	var machines []*unstructured.Unstructured
	for i := range fleet {
		machines = append(machines, w.apply(document(fmt.Sprintf("fleet-%d", i), contract.V1Beta2))[2])
	}
	created := time.Since(start)
	for _, m := range machines {
		w.ready(m)
	}
	t.Logf("%d Machines: created in %s, all Ready after %s", fleet, created.Round(time.Second), time.Since(start).Round(time.Second))
	events, err := audit.Since(mark)
	require.NoError(t, err)
	w.bounded(events.From(managerAgent).Writes(), fleet, 5, 9)

	mark, err = audit.Mark()
	require.NoError(t, err)
	start = time.Now()
	for _, m := range machines {
		require.NoError(t, w.client.Delete(t.Context(), m))
	}
	for _, m := range machines {
		w.gone(m)
	}
	t.Logf("all gone after %s", time.Since(start).Round(time.Second))
	events, err = audit.Since(mark)
	require.NoError(t, err)
	w.bounded(events.From(managerAgent).Writes(), fleet, 5, 10)
}
