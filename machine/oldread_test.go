package machine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/patch"
	"github.com/machinist-dev/machinist/machine"
)

// passesByHand are passes over Machine m1 in a store, as old as the test wants its reads to be.
type passesByHand struct {
	*machine.Reconciler

	t      *testing.T
	kind   contract.Kind
	store  *fake.Store
	client client.Client
}

func newPassesByHand(t *testing.T, o machine.Options) *passesByHand {
	t.Helper()
	return newPassesOver(t, contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine), o)
}

func newPassesOver(t *testing.T, kind contract.Kind, o machine.Options) *passesByHand {
	t.Helper()
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: kind.GVK, Status: kind.StatusSubresource}}})
	mgr, err := store.NewManager(ctrl.Options{})
	require.NoError(t, err)
	ports, err := machine.PortsFromManager(t.Context(), mgr, o)
	require.NoError(t, err)
	r, err := machine.New(kind, ports, o)
	require.NoError(t, err)
	require.NoError(t, store.Client().Create(t.Context(), fake.Machine("m1")))
	return &passesByHand{Reconciler: r, t: t, kind: kind, store: store, client: store.Client()}
}

func (p *passesByHand) read() (client.Object, contract.MachineState) {
	p.t.Helper()
	obj, ok := p.kind.New().(client.Object)
	require.True(p.t, ok)
	require.NoError(p.t, p.client.Get(p.t.Context(), client.ObjectKeyFromObject(fake.Machine("m1")), obj))
	var state contract.MachineState
	require.NoError(p.t, p.kind.Adapter.Read(obj, &state))
	return obj, state
}

// A new leader, or a cache that is very late, decides once more what is stored already. The write of metadata must not lend its
// fresh resource version to a status that was decided on the old read: phases would seem to have just begun.
func TestAStatusThatWasDecidedOnAnOldReadIsNotWrittenOnTopOfTheMetadata(t *testing.T) {
	began := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(began)
	var secret string
	steps := []machine.Step{{Name: "phase", On: engine.InBoth, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
		if secret != "" {
			s.SetDataSecretName(secret)
		}
		s.SetPhase("Running")
		return machine.Result{}, nil
	}}}
	p := newPassesByHand(t, machine.Options{Options: engine.Options{Clock: clock, StatusDelay: -1}, Steps: steps})
	r, read := p.Reconciler, p.read
	old, _ := read()
	_, err := r.ReconcileObject(t.Context(), old)
	require.NoError(t, err)

	clock.SetTime(began.Add(patch.MaxBehind))
	secret = "data"
	again, err := r.ReconcileObject(t.Context(), old)
	require.NoError(t, err)
	require.NotZero(t, again.RequeueAfter, "it is tried again on a fresh read")
	fresh, state := read()
	require.Equal(t, began, state.LastUpdated.UTC(), "nothing has happened since")
	_, err = r.ReconcileObject(t.Context(), fresh)
	require.NoError(t, err)
	_, state = read()
	require.Equal(t, began, state.LastUpdated.UTC())
	require.Equal(t, "data", state.DataSecretName.Or(""))
}

// The API server answers the write that removes the last finalizer with the version from before it. An event of the Node that comes
// before the one of the Machine's own end leads to a pass over the very copy that the write was decided on.
func TestAPassOverAnOldCopyWritesNothingAfterTheLastFinalizerIsGone(t *testing.T) {
	for name, hasStatus := range map[string]bool{"with a status subresource": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
			kind.StatusSubresource = hasStatus
			steps := slices.DeleteFunc(machine.Steps(), func(s machine.Step) bool {
				return s.Name != machine.StepFinalizer && s.Name != machine.StepRemoveFinalizer && s.Name != machine.StepPhase
			})
			p := newPassesOver(t, kind, machine.Options{Steps: steps, Options: engine.Options{StatusDelay: -1}})
			obj, _ := p.read()
			_, err := p.ReconcileObject(t.Context(), obj)
			require.NoError(t, err)
			obj, state := p.read()
			require.NotEmpty(t, state.Finalizers)
			require.NoError(t, p.client.Delete(t.Context(), obj))
			obj, _ = p.read()
			_, err = p.ReconcileObject(t.Context(), obj)
			require.NoError(t, err)
			require.True(t, apierrors.IsNotFound(p.client.Get(t.Context(), client.ObjectKeyFromObject(obj), fake.Machine("m1"))))

			writes := p.store.CountRequests(fake.Request.IsWrite)
			for range 3 {
				_, err = p.ReconcileObject(t.Context(), obj)
				require.NoError(t, err)
			}
			require.Equal(t, writes, p.store.CountRequests(fake.Request.IsWrite), "the Machine is gone")
		})
	}
}
