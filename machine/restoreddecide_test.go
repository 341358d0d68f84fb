package machine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// The process lives on when a backup of the management cluster is restored, which has the infrastructure in the version that was deleted.
func TestInfrastructureThatARestoreBroughtBackIsDeletedAgain(t *testing.T) {
	first, asked := time.Unix(1000, 0), 0
	server := interceptor.NewClient(nil, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			asked++
			return nil
		},
	})
	e := present("Infra")
	e.Object.SetUID("u")
	e.Object.SetResourceVersion("7")
	for name, passes := range map[string][]time.Time{
		"a pass has found the Machine running": {first, {}, first.Add(time.Hour)},
		"no pass has":                          {first, first.Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			asked = 0
			s := attached(&Scope{
				Scope: base{Now: first},
				env:   testReconciler(testKind(), Ports{Ports: engine.Ports{Client: server, Cache: holdsNothing{}}}, Options{}),
			})
			for i, requestedAt := range passes {
				s.State.Deleting = requestedAt
				s.env.begin(t.Context(), s)
				if requestedAt.IsZero() {
					continue
				}
				require.Equal(t, i > 0 && passes[i-1].Equal(requestedAt), s.isGoing(e))
				_, err := s.deleteReferenced(t.Context(), e, "", "")
				require.NoError(t, err)
				s.env.begin(t.Context(), s)
				require.True(t, s.isGoing(e), "the same deletion")
			}
			require.Equal(t, 2, asked)
		})
	}
}

func TestWhatIsRememberedOfADeletionEndsWithIt(t *testing.T) {
	first := time.Unix(1000, 0)
	for name, next := range map[string]time.Time{"none": {}, "another": first.Add(time.Second)} {
		m, object := &recollection{}, goneObject{name: types.NamespacedName{Name: "o"}}
		m.observeDeletion(first)
		m.setGone(object)
		m.requested.Add("u", "7", first)
		m.observeDeletion(first.Local())
		require.Equal(t, []any{true, true}, []any{m.gone[object], m.requested.Has("u")}, name)
		m.observeDeletion(next)
		require.Equal(t, ofDeletion{requestedAt: next}, m.ofDeletion, name)
		require.Zero(t, testing.AllocsPerRun(10, func() { m.observeDeletion(next) }), name)
	}
}

func TestRecordOfADeletion(t *testing.T) {
	deleting := time.Unix(100_000, 0).UTC()
	old := deleting.Add(-time.Hour)
	other := contract.DeletionOf(&contract.Metadata{Deleting: old}, nil, old)
	other.End(StepDrain, "n-uid", old)
	pass := func(state contract.MachineState, act func(*Scope)) *Scope {
		s := attached(&Scope{Scope: base{Now: deleting.Add(time.Minute), State: state}})
		s.env.begin(t.Context(), s)
		act(s)
		s.recordDeletion()
		return s
	}
	stale := contract.MachineState{DrainStarted: old, VolumeDetachStarted: old}
	for key, c := range other.Changes(nil) {
		text, _ := c.Value()
		stale.Annotations = map[string]string{key: text}
	}
	t.Run("that of another deletion counts for nothing, and goes", func(t *testing.T) {
		for name, requested := range map[string]time.Time{"the Machine lives": {}, "it is being deleted": deleting} {
			state := stale
			state.Deleting = requested
			s := pass(state, func(s *Scope) { require.False(t, s.deletion.HasEnded(StepDrain, "n-uid"), name) })
			require.NotContains(t, s.State.Annotations, contract.DeletionAnnotation, name)
			require.Equal(t, contract.SetTo(time.Time{}), s.Update.DrainStarted, name)
			require.Equal(t, contract.SetTo(time.Time{}), s.Update.VolumeDetachStarted, name)
		}
	})
	t.Run("a start is stored once, where the kind has a field for it", func(t *testing.T) {
		for name, fields := range map[string][]string{"none": nil, "the drain": {StepDrain}} {
			s := pass(contract.MachineState{Metadata: contract.Metadata{Deleting: deleting}}, func(s *Scope) {
				s.env.startsElsewhere = fields
				require.True(t, s.begin(StepDrain))
				require.False(t, s.begin(StepDrain))
			})
			require.Equal(t, contract.SetTo(deleting.Add(time.Minute)), s.Update.DrainStarted, name)
			_, recorded := s.State.Annotations[contract.DeletionAnnotation]
			require.Equal(t, fields == nil, recorded, name)
		}
	})
	t.Run("kinds with fields are recognised", func(t *testing.T) {
		own := contract.Unstructured(testKind().GVK, contract.LayoutsOf(contract.V1Beta2).Machine)
		require.Equal(t, []string{StepDrain, StepVolumes}, startsElsewhere(own))
		require.Empty(t, startsElsewhere(contract.Unstructured(testKind().GVK, contract.GardenerLayouts().Machine)))
	})
}
