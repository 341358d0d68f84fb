package machinepool_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
)

// notes are the events about a pool with a reason.
func (w *world) notes(reason string) (notes []string) {
	w.t.Helper()
	var list eventsv1.EventList
	require.NoError(w.t, w.client.List(w.t.Context(), &list))
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == reason && e.Regarding.Kind == "MachinePool" {
			notes = append(notes, e.Type+" "+e.Note)
		}
	}
	slices.Sort(notes)
	return notes
}

// recorded waits for events: the recorder sends them when it suits it.
func (w *world) recorded(reason string, want ...string) {
	w.t.Helper()
	w.eventually("say "+reason, func() string {
		if got := w.notes(reason); !slices.Equal(want, got) {
			return fmt.Sprintf("want %q, got %q", want, got)
		}
		return ""
	})
}

func TestNodeEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{RequestDrain: true}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	w.change(pool, set(int64(2), "spec", "replicas"))
	w.reports(pool, "Running", 2, 2)
	w.isQuiet()
	w.recorded(machinepool.EventNodeDrained)
	w.recorded(machinepool.EventNodeDeleted)

	w.change(pool, set(int64(1), "spec", "replicas"))
	w.reports(pool, "Running", 1, 1)
	w.eventually("the Node goes", func() string {
		if n := len(w.nodes()); n != 1 {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	})
	left := w.nodes()[0].Name
	gone := map[string]string{"pool-0": "pool-1", "pool-1": "pool-0"}[left]
	w.recorded(machinepool.EventNodeDrained, "Normal success draining Node "+gone)
	w.recorded(machinepool.EventNodeDeleted, "Normal "+gone)
}

func TestTroubleThatAPersonCanMendIsAnEventWhenItBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	first := w.poolWith(1)
	w.reports(first, "Running", 1, 1)
	second := fake.MachinePool("second", 1, fake.WithField("pool", "spec", "template", "spec", "infrastructureRef", "name"))
	w.create(fake.BootstrapConfig(contract.V1Beta2, "second"), second)
	message := w.conditionIs(second, contract.ConditionInfrastructureReady, contract.ReasonOwnedByAnother)
	w.recorded(contract.ReasonOwnedByAnother, "Warning InfrastructureReady: "+message)
	w.change(second, fake.WithAnnotations(map[string]string{"look": "again"}))
	w.isQuiet()
	w.recorded(contract.ReasonOwnedByAnother, "Warning InfrastructureReady: "+message)
}

func TestMachineEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	pool := w.poolWith(1)
	w.hasMachines(1)
	name := w.machines()[0].GetName()
	w.recorded(machinepool.EventMachinesCreated, "Normal Created Machine "+name)
	w.recorded(machinepool.EventMachineDeleted)
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.recorded(machinepool.EventMachineDeleted, "Normal Deleted Machine "+name)
}
