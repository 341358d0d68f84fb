package fake_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

func TestWhatKeepsMachinesFromBecomingReadyMayHoldThem(t *testing.T) {
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: fake.MachineGVK(), Status: true}}})
	machine := fake.Machine("m")
	require.NoError(t, store.Client().Create(t.Context(), machine))
	machines := fake.NewMachines(store.Client(), contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine))
	machines.NotReady(func(client.Object) bool {
		machines.Hold(true)
		return true
	})
	result, err := machines.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(machine)})
	require.NoError(t, err)
	require.NotZero(t, result.RequeueAfter)
}
