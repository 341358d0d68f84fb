package machine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

// An API server that does not serve a version at the moment answers 404 to all that is asked of it.
func TestADeletionThatNobodyUnderstoodIsAskedForAgain(t *testing.T) {
	t.Parallel()
	w := byHandWorld(t, machine.Options{})
	m := w.provisioned("m", "fake://x/1")
	w.create(fake.Node("n", "fake://x/1"))
	w.conditionIs(m, machine.ConditionNodeReady, machine.ReasonNodeReady)
	kind := fake.InfraMachineGVK(contract.V1Beta2).Kind
	w.store.FailNext(func(r fake.Request) bool { return r.Verb == "delete" && r.GVK.Kind == kind },
		apierrors.NewGenericServerResponse(404, "delete", schema.GroupResource{Resource: kind}, "m", "404 page not found", 0, true))
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	require.Nil(t, w.get(fake.InfraMachine(contract.V1Beta2, "m")))
}

// New refuses a kind that never keeps a provider ID, so this one loses it only in a deletion.
func TestAKindThatCannotKeepAProviderIDIsToldWhenAMachineGoes(t *testing.T) {
	t.Parallel()
	kind := contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2())
	kind.Adapter = forgetful{kind.Adapter, func(s *contract.MachineState) {
		if !s.Deleting.IsZero() && s.Key.Name == "m1" {
			s.ProviderID = ""
		}
	}}
	w := newWorld(t, worldOptions{kind: kind})
	m := w.machineWith("m1")
	w.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionSays(m, machine.ConditionDeleting, machine.ReasonInternalError, "Machine default/m1 does not keep its provider ID", "MachineState.ProviderID")
	require.Nil(t, w.get(fake.InfraMachine(contract.V1Beta2, "m1")).GetDeletionTimestamp(), "nobody would know its ID any more")
}

// unfailing is an adapter of a kind that has no place for a failure.
type unfailing struct {
	contract.Adapter[contract.MachineState, contract.MachineUpdate]
}

func (u unfailing) Write(obj contract.Object, update contract.MachineUpdate) error {
	update.FailureReason, update.FailureMessage = contract.Change[string]{}, contract.Change[string]{}
	return u.Adapter.Write(obj, update)
}

func TestALostInfrastructureIsAskedForOnceAlsoWhereNoFailureIsKept(t *testing.T) {
	t.Parallel()
	kind := contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2())
	kind.Adapter = unfailing{kind.Adapter}
	w := newWorld(t, worldOptions{kind: kind, noCRDs: true, machine: atOnce, before: func(w *world) {
		w.create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2), fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
	}})
	m := w.runningByHand("m", "fake://x/1")
	asked := func() (n int) {
		for _, r := range w.store.Requests() {
			if r.UserAgent == userAgent && r.Verb == "get" && r.GVK.Kind == "FakeMachine" {
				n++
			}
		}
		return n
	}
	for times := range 2 {
		w.store.ResetRequests()
		require.NoError(t, w.client.Delete(t.Context(), fake.InfraMachine(contract.V1Beta2, "m")))
		w.conditionIs(m, machine.ConditionInfrastructureReady, machine.ReasonDeleted)
		for i := range 5 {
			w.annotate(m, map[string]any{"example.com/edit": fmt.Sprint(times, i)})
			w.conditionIs(m, machine.ConditionInfrastructureReady, machine.ReasonDeleted)
		}
		require.Equal(t, 1, asked())
		w.create(fake.InfraMachine(contract.V1Beta2, "m"))
		w.setInfra("m", map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://x/1")
		w.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
	}
}
