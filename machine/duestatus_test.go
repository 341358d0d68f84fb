package machine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

func TestAStatusThatWasDueAndMetAConflictIsWrittenByTheNextPass(t *testing.T) {
	kind := contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2())
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: kind.GVK, Status: true}}})
	mgr, err := store.NewManager(ctrl.Options{})
	require.NoError(t, err)
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	steps := []machine.Step{{Name: "phase", On: machine.InBoth, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
		s.SetPhase("Pending")
		return machine.Result{}, nil
	}}}
	ports, err := machine.PortsFromManager(t.Context(), mgr, machine.Options{}.Matching)
	require.NoError(t, err)
	r, err := machine.New(kind, ports, machine.Options{Clock: clock, Steps: steps, StatusDelay: time.Minute})
	require.NoError(t, err)
	require.NoError(t, store.Client().Create(t.Context(), fake.Machine("m1")))
	read := func() client.Object {
		obj := kind.New().(client.Object)
		require.NoError(t, store.Client().Get(t.Context(), client.ObjectKeyFromObject(fake.Machine("m1")), obj))
		return obj
	}
	old := read()
	result, err := r.ReconcileObject(t.Context(), old)
	require.NoError(t, err)
	require.Equal(t, time.Minute, result.RequeueAfter)
	changed := read()
	changed.SetLabels(map[string]string{"tier": "a"})
	require.NoError(t, store.Client().Update(t.Context(), changed))

	clock.SetTime(clock.Now().Add(time.Minute))
	result, err = r.ReconcileObject(t.Context(), old)
	require.NoError(t, err)
	require.Equal(t, time.Second, result.RequeueAfter, "it is tried again on a fresh read")
	_, err = r.ReconcileObject(t.Context(), read())
	require.NoError(t, err)
	var state contract.MachineState
	require.NoError(t, kind.Adapter.Read(read(), &state))
	require.Equal(t, "Pending", state.Phase)
}
