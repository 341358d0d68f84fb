package machineset

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// broken is a cache that answers nothing.
type broken struct{ cache.Cache }

var errBroken = errors.New("the cache is broken")

func (broken) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errBroken
}
func (broken) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, errBroken
}

// runStep runs one step in the part of the life that the set is in.
func runStep(t *testing.T, s *Scope, name string) (engine.Result, error) {
	t.Helper()
	at := engine.Position(Steps(), name, engine.InBoth)
	return engine.RunSteps(t.Context(), Steps()[at:at+1], s, nil)
}

func TestATemplateThatCouldNotBeReadKeepsASetFromCreating(t *testing.T) {
	t.Parallel()
	frame := &engine.Frame[contract.MachineSetState, contract.MachineSetUpdate]{Tracker: external.NewTracker(broken{}, nil, "test")}
	s := &Scope{env: &Reconciler{frame: frame}}
	s.Attach(frame)
	s.State.Template.Bootstrap = contract.Ref{Group: "g", Kind: "BootstrapTemplate", Name: "b"}
	s.State.Template.Infrastructure = contract.Ref{Group: "g", Kind: "InfraTemplate", Name: "i"}
	_, err := runStep(t, s, StepTemplates)
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, []scale.Hold{
		{Reason: engine.ReasonTemplateUnread, Message: "BootstrapTemplate could not be read: " + engine.SeeLogs},
		{Reason: engine.ReasonTemplateUnread, Message: "InfraTemplate could not be read: " + engine.SeeLogs},
	}, s.machines.Holds, "what is unread is not absent")

	s.machines.Holds, s.State.Deleting = nil, noon()
	_, err = runStep(t, s, StepTemplates)
	require.NoError(t, err, "a set in deletion needs none")
	require.Empty(t, s.machines.Holds)
}

func TestChecksThatFailKeepASetFromCreating(t *testing.T) {
	t.Parallel()
	newer := scale.PreflightFacts{DesiredVersion: "v1.35.0", CurrentVersion: "v1.35.0", Version: "v1.36.0"}
	odd := newer
	odd.CurrentVersion = "latest"
	fits := newer
	fits.Version = "v1.35.0"
	s := &Scope{}
	s.check(fits)
	require.Empty(t, s.machines.Holds)
	for says, facts := range map[string]scale.PreflightFacts{"v1.36.0": newer, "preflight checks could not be made": odd} {
		s := &Scope{}
		s.check(facts)
		require.Len(t, s.machines.Holds, 1)
		require.Contains(t, s.machines.Holds[0].Message, says)
	}
}

func TestChecksThatCannotBeMadeKeepASetFromCreating(t *testing.T) {
	t.Parallel()
	for name, going := range map[string]bool{"a set that lives": false, "a set in deletion makes none": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			frame := &engine.Frame[contract.MachineSetState, contract.MachineSetUpdate]{Tracker: external.NewTracker(broken{}, nil, "test")}
			s := &Scope{env: &Reconciler{frame: frame}}
			s.machines.Selector = labels.Everything()
			s.Attach(frame)
			s.Cluster.Presence = external.Present
			s.Cluster.State.ControlPlane = contract.Ref{Group: "g", Kind: "ControlPlane", Name: "c"}
			if going {
				s.State.Deleting = noon()
			}
			result, err := runStep(t, s, StepHolds)
			require.Zero(t, result.RequeueAfter)
			if going {
				require.NoError(t, err)
				require.Empty(t, s.machines.Holds)
				return
			}
			require.ErrorIs(t, err, errBroken)
			require.Len(t, s.machines.Holds, 1)
			require.Equal(t, "preflight checks could not be made: "+engine.SeeLogs, s.machines.Holds[0].Message)
		})
	}
}

// A new process has read no template at first: a set at rest must not write that.
func TestWhatIsUnreadConcernsOnlyASetThatLacksMachines(t *testing.T) {
	t.Parallel()
	s := &Scope{}
	for _, reason := range []string{
		engine.ReasonTemplateUnread, engine.ReasonTemplateMissing, ReasonControlPlaneUnread, ReasonPreflightFailed, ReasonCreationDisabled,
		ReasonNaming,
	} {
		s.Hold(reason, reason)
	}
	s.State.Replicas = contract.Some[int32](1)
	require.Len(t, s.holds(), 6)
	s.State.Replicas = contract.Some[int32](0)
	require.Equal(t, []scale.Hold{
		{Reason: ReasonNaming, Message: ReasonNaming}, {Reason: engine.ReasonTemplateMissing, Message: engine.ReasonTemplateMissing},
	}, s.holds())
}

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func TestNothingIsRememberedOfASetThatIsDoneWith(t *testing.T) {
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	ports := engine.Ports{Client: struct{ client.Client }{}, Cache: broken{}, APIReader: struct{ client.Reader }{}}
	r, err := New(kinds, ports, Options{Options: engine.Options{WatchFilter: "mine"}})
	require.NoError(t, err)
	set := kinds.Set.New()
	set.SetNamespace("default")
	set.SetName("workers")
	set.SetUID("uid")
	key := types.NamespacedName{Namespace: "default", Name: "workers"}
	before := r.memory.Of(key, "uid")
	_, err = r.ReconcileObject(t.Context(), set)
	require.NoError(t, err)
	require.NotSame(t, before, r.memory.Of(key, "uid"), "it is another controller's")

	before = r.memory.Of(key, "uid")
	set.SetLabels(map[string]string{contract.WatchFilterLabel: "mine"})
	set.SetDeletionTimestamp(new(metav1.NewTime(noon())))
	_, err = r.ReconcileObject(t.Context(), set)
	require.NoError(t, err)
	require.NotSame(t, before, r.memory.Of(key, "uid"), "its finalizer is gone")
}
