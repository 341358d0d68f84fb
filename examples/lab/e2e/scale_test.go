//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

const (
	// fleetSize is how many Machines there are at once.
	fleetSize = 500
	// atRest is for how long Running Machines are watched. Whatever a manager does at intervals it does within seconds or within
	// hours; "lab bench machine --steady 5m" watches for longer, beside Cluster API.
	atRest = time.Minute
)

// TestE2EAFleetCostsPerMachineWhatOneMachineCosts creates Machines at once, as the measurement of Cluster API v1.13.6
// does (17.7 writes per Machine to Running, 10.1 to delete it), and counts at the API server. In between, a fleet that is Running
// costs nothing. Times are printed, not judged.
func TestE2EAFleetCostsPerMachineWhatOneMachineCosts(t *testing.T) {
	w := newWorld(t, worldOptions{managerFlags: []string{"--leader-elect=false"}}) // as busy as it is, it may not renew a Lease in time
	audit := w.plane.Audit()
	mark, err := audit.Mark()
	require.NoError(t, err)
	start := time.Now()
	machines := make([]*unstructured.Unstructured, fleetSize)
	require.NoError(t, measure.InParallel(t.Context(), fleetSize, func(i int) error {
		name := fmt.Sprintf("fleet-%d", i)
		machines[i] = fake.Machine(name)
		return errors.Join(
			w.client.Create(t.Context(), fake.InfraMachine(contract.V1Beta2, name)),
			w.client.Create(t.Context(), fake.BootstrapConfig(contract.V1Beta2, name)),
			w.client.Create(t.Context(), machines[i]),
		)
	}))
	created := time.Since(start)
	for _, m := range machines {
		w.ready(m)
	}
	t.Logf("%d Machines: created in %s, all Ready after %s", fleetSize, created.Round(time.Second), time.Since(start).Round(time.Second))
	events, err := audit.Since(mark)
	require.NoError(t, err)
	w.bounded(events.From(managerAgent).Writes(), fleetSize, 8, 12)
	w.costNothing()
	w.noFights(fake.MachineGVK())

	mark, err = audit.Mark()
	require.NoError(t, err)
	start = time.Now()
	require.NoError(t, measure.InParallel(t.Context(), fleetSize, func(i int) error { return w.client.Delete(t.Context(), machines[i]) }))
	for _, m := range machines {
		w.gone(m)
	}
	t.Logf("all gone after %s", time.Since(start).Round(time.Second))
	events, err = audit.Since(mark)
	require.NoError(t, err)
	w.bounded(events.From(managerAgent).Writes(), fleetSize, 9, 14) // a stage that lasts is told of, and in a fleet some do
}

// costNothing waits until the manager makes no more requests, and then counts those that it makes all the same. Leases and watches,
// which end by themselves and are opened again, are none.
func (w *world) costNothing() {
	w.t.Helper()
	requests := func(since cluster.AuditMark) cluster.AuditEvents {
		events, err := w.plane.Audit().Since(since)
		require.NoError(w.t, err)
		return events.From(managerAgent).Where(func(e cluster.AuditEvent) bool { return e.Verb != "watch" && e.Resource != "leases" })
	}
	var mark cluster.AuditMark
	w.eventually("the manager to come to rest", func() string {
		var err error
		mark, err = w.plane.Audit().Mark()
		require.NoError(w.t, err)
		time.Sleep(3 * time.Second)
		if made := requests(mark); len(made) > 0 {
			return made.String()
		}
		return ""
	})
	time.Sleep(atRest)
	if made := requests(mark); len(made) > 0 {
		w.t.Errorf("%d Machines that are Running cost requests in %s: %s", fleetSize, atRest, made)
	}
}
