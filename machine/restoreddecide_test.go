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
				require.NoError(t, s.deleteExternal(t.Context(), e))
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
		require.Equal(t, []any{true, true}, []any{m.isGone(object), m.requested.Has("u")}, name)
		m.observeDeletion(next)
		require.Equal(t, ofDeletion{requestedAt: next}, m.ofDeletion, name)
		require.Zero(t, testing.AllocsPerRun(10, func() { m.observeDeletion(next) }), name)
	}
}

func TestRecordsOfAnOlderDeletionAreForgottenBeforeTheFirstStage(t *testing.T) {
	deleting := time.Unix(100_000, 0).UTC()
	old, recent := deleting.Add(-time.Hour), deleting.Add(-contract.ClockTolerance)
	text := func(at time.Time) map[string]string {
		return map[string]string{NodeDeletionStartedAnnotation: at.Format(time.RFC3339)}
	}
	for name, tc := range map[string]struct {
		state  contract.MachineState
		forget bool
	}{
		"a step that records no start": {},
		"the drain":                    {state: contract.MachineState{DrainStarted: old}, forget: true},
		"volumes":                      {state: contract.MachineState{VolumeDetachStarted: old}, forget: true},
		"pre-terminate hooks":          {state: contract.MachineState{PreTerminateStarted: old}, forget: true},
		"the Node":                     {state: contract.MachineState{Metadata: contract.Metadata{Annotations: text(old)}}, forget: true},
		"one stage of two":             {state: contract.MachineState{DrainStarted: deleting, PreTerminateStarted: old}, forget: true},
		"this deletion":                {state: contract.MachineState{DrainStarted: deleting, PreTerminateStarted: deleting}},
		"this deletion, by a clock that is behind": {state: contract.MachineState{DrainStarted: recent}},
	} {
		t.Run(name, func(t *testing.T) {
			s := attached(&Scope{Scope: base{Now: deleting.Add(time.Minute), State: tc.state}, NodesSynced: true})
			s.State.Deleting, s.State.DrainedNode, s.State.VolumesDetachedNode = deleting, "n-uid", "n-uid"
			before := s.State
			result, err := observeStep(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, Result{Checkpoint: tc.forget}, result)
			require.Equal(t, tc.forget, s.urgent)
			if !tc.forget {
				require.Equal(t, before, s.State)
				return
			}
			require.Equal(t, contract.MachineState{
				Metadata: contract.Metadata{Deleting: deleting, Annotations: s.State.Annotations},
			}, s.State)
			require.NotContains(t, s.State.Annotations, NodeDeletionStartedAnnotation)
			require.Equal(t, contract.SetTo[types.UID](""), s.Update.DrainedNode)
			require.Equal(t, contract.SetTo[types.UID](""), s.Update.VolumesDetachedNode)
			result, err = observeStep(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, Result{}, result, "nothing is left of it")
		})
	}
}

// The starts that such a process records are before the deletion. It must not forget them again and again.
func TestAProcessWhoseClockIsFarBehindForgetsNothingOfItsOwn(t *testing.T) {
	deleting := time.Unix(100_000, 0).UTC()
	s := attached(&Scope{Scope: base{Now: deleting.Add(-time.Hour)}, NodesSynced: true})
	s.State.Deleting, s.State.DrainStarted = deleting, deleting.Add(-24*time.Hour)
	s.memory.observeDeletion(deleting)
	for _, want := range []Result{{Checkpoint: true}, {}} {
		result, err := observeStep(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, want, result)
	}
	s.begin(&s.State.DrainStarted, &s.Update.DrainStarted)
	started := s.State.DrainStarted
	s.memory.observeDeletion(deleting)
	result, err := observeStep(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, Result{}, result)
	require.Equal(t, started, s.State.DrainStarted)

	s.State.Deleting = deleting.Add(time.Hour)
	s.memory.observeDeletion(s.State.Deleting)
	result, err = observeStep(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, Result{Checkpoint: true}, result, "another deletion")
}
