package machineset

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
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

func TestWhatMachinesShareIsNoTemplate(t *testing.T) {
	t.Parallel()
	frame := &engine.Frame[contract.MachineSetState, contract.MachineSetUpdate]{
		Tracker: external.NewTracker(broken{}, nil, "test"),
		Shared:  func(ref contract.Ref) bool { return ref.Kind == "MachineClass" },
	}
	s := &Scope{env: &Reconciler{frame: frame}}
	s.Attach(frame)
	s.State.Template.Infrastructure = contract.Ref{Group: "g", Kind: "MachineClass", Name: "small"}
	_, err := runStep(t, s, StepTemplates)
	require.NoError(t, err, "it is not read")
	require.Empty(t, s.machines.Holds)
	require.Equal(t, external.NotReferenced, s.templates[1].Presence, "nothing is cloned")
	s.State.Template.Infrastructure.Kind = "InfraTemplate"
	_, err = runStep(t, s, StepTemplates)
	require.ErrorIs(t, err, errBroken)
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
