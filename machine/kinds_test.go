package machine_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
)

// forgetful is an adapter whose kind does not keep something, whatever its functions fall back to.
type forgetful struct {
	contract.Adapter[contract.MachineState, contract.MachineUpdate]

	forget func(*contract.MachineState)
}

func (f forgetful) Read(obj contract.Object, into *contract.MachineState) error {
	err := f.Adapter.Read(obj, into)
	f.forget(into)
	return err
}

func TestAKindThatForgetsWhatTheStepsNeedIsRefused(t *testing.T) {
	t.Parallel()
	own := driverSteps(t, &worldOptions{})
	for name, tc := range map[string]struct {
		forget  func(*contract.MachineState)
		options machine.Options
		says    string // empty: it is taken
	}{
		"nothing": {func(*contract.MachineState) {}, machine.Options{}, ""},
		"the provider ID": {func(s *contract.MachineState) { s.ProviderID = "" }, machine.Options{},
			"ProviderID is not stored, so no Node is found"},
		"one that read makes": {func(s *contract.MachineState) { s.ProviderID = "" }, machine.Options{Steps: own}, ""},
		"annotations": {func(s *contract.MachineState) { s.Annotations = nil }, machine.Options{Steps: own},
			"Annotations is not stored"},
		"finalizers": {func(s *contract.MachineState) { s.Finalizers = nil }, machine.Options{Steps: own},
			"Finalizers is not stored"},
		"the UID of the Node": {func(s *contract.MachineState) { s.Node.UID = "" }, machine.Options{Steps: own},
			"Node.UID is not stored"},
		"bootstrap data": {func(s *contract.MachineState) { s.DataSecretName = contract.Opt[string]{} }, machine.Options{},
			"DataSecretName is not stored"},
		"bootstrap data that it has no need": {func(s *contract.MachineState) { s.DataSecretName = contract.Opt[string]{} },
			machine.Options{Steps: own}, ""},
		"starts of stages, which are recorded": {func(s *contract.MachineState) {
			s.DrainStarted, s.VolumeDetachStarted = time.Time{}, time.Time{}
		}, machine.Options{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kind := serverKind(true)
			kind.Adapter = forgetful{kind.Adapter, tc.forget}
			_, err := machine.New(kind, machine.Ports{}, tc.options) // the ports are refused in any case
			if tc.says != "" {
				require.ErrorContains(t, err, tc.says)
				return
			}
			require.NotContains(t, err.Error(), "is not stored")
		})
	}
}

// serverWorld has Servers that steps of the embedder make, with whatever changes the options.
func serverWorld(t *testing.T, kind contract.Kind, change func(*worldOptions)) (*world, *unstructured.Unstructured) {
	t.Helper()
	options := worldOptions{kind: kind, store: fake.Options{Scheme: serverScheme(clientgoscheme.AddToScheme)}, noCRDs: true}
	options.machine.Steps = driverSteps(t, &options)
	if change != nil {
		change(&options)
	}
	w := newWorld(t, options)
	m := testenv.Object(kind.GVK, "m1")
	w.Create(m)
	return w, m
}

func TestAMachineWhoseKindForgetsTheProviderIDSaysSoAndIsNotReady(t *testing.T) {
	kind := contract.NewTyped(serverGVK, func() *Server { return &Server{} }, func() runtime.Object { return &ServerList{} }, readServer,
		func(s *Server, u contract.MachineUpdate) error {
			u.ProviderID = contract.Change[string]{}
			return writeServer(s, u)
		})
	w, m := serverWorld(t, kind, nil)
	state := w.says(kind, m, contract.ConditionReady, contract.ReasonInternalError)
	for _, c := range state.Conditions {
		if c.Type == contract.ConditionReady {
			require.Contains(t, c.Message, "Step infrastructure failed: Server default/m1 does not keep the provider ID")
			require.NotEqual(t, metav1.ConditionTrue, c.Status)
		}
	}
	require.Empty(t, state.Node.Name)
	require.NotEqual(t, "Running", state.Phase)
}

func TestTheErrorOfAStepIsReportedAndKeepsReady(t *testing.T) {
	var fails atomic.Bool
	var asked atomic.Int64
	fails.Store(true)
	kind := serverKind(true)
	w, m := serverWorld(t, kind, func(o *worldOptions) {
		o.machine.Steps = o.machine.Steps.InsertAfter(machine.StepNode, machine.Step{
			Name: "quota", On: engine.InRunning, Run: func(context.Context, *machine.Scope) (machine.Result, error) {
				if !fails.Load() {
					return machine.Result{}, nil
				}
				return machine.Result{}, fmt.Errorf("quota exceeded\nrequest %d", asked.Add(1))
			},
		})
	})
	said := func(s contract.MachineState) (c metav1.Condition) {
		for _, have := range s.Conditions {
			if have.Type == contract.ConditionReady {
				c = have
			}
		}
		return c
	}
	first := said(w.says(kind, m, contract.ConditionReady, contract.ReasonInternalError))
	require.Contains(t, first.Message, "* Step quota failed: quota exceeded request ")
	require.NotEqual(t, metav1.ConditionTrue, first.Status)
	at := asked.Load()
	w.Until("more attempts", func() bool { return asked.Load() != at })
	var state contract.MachineState
	w.Eventually("the same words to stay", func() string {
		state = w.says(kind, m, contract.ConditionReady, contract.ReasonInternalError)
		return ""
	})
	require.Contains(t, said(state).Message, "quota exceeded request ")

	fails.Store(false)
	w.annotate(m, map[string]any{"example.com/wake": "1"})
	w.says(kind, m, contract.ConditionReady, contract.ReasonReady)
	fails.Store(true)
	w.annotate(m, map[string]any{"example.com/wake": "2"})
	w.Until("the failure to be said of a ready Machine", func() bool {
		c := said(w.says(kind, m, contract.ConditionReady, contract.ReasonReady))
		return c.Status == metav1.ConditionTrue && c.Message != ""
	})
}

// Ready would be True while the phase waits for what no condition says.
func TestAMachineWhoseInfrastructureNoStepReportsSaysWhatIsMissing(t *testing.T) {
	var reports atomic.Bool
	kind := serverKind(true)
	var w *world
	w, m := serverWorld(t, kind, func(o *worldOptions) {
		o.before = func(made *world) { w = made }
		o.machine.Steps = machine.Steps().Remove(machine.StepBootstrap).Remove(machine.StepInfrastructure).
			InsertBefore(machine.StepNode, machine.Step{
				Name: "own", On: engine.InRunning, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
					s.SetProviderID("fake://" + s.State.Key.Name)
					if reports.Load() {
						s.SetInfrastructureReady()
					}
					return machine.Result{}, nil
				},
			})
	})
	w.Create(fake.Node("m1", "fake://m1"))
	state := w.says(kind, m, contract.ConditionInfrastructureReady, machine.ReasonInfrastructureNotReported)
	require.Equal(t, "Provisioned", state.Phase)
	w.says(kind, m, contract.ConditionReady, contract.ReasonReadyUnknown)
	reports.Store(true)
	w.annotate(m, map[string]any{"example.com/wake": "1"})
	w.says(kind, m, contract.ConditionReady, contract.ReasonReady)
	require.Equal(t, "Running", w.says(kind, m, contract.ConditionInfrastructureReady, contract.ReasonReady).Phase)
}

func TestAStepInPlaceOfStepPausedPausesAndAForgottenMachineIsNotDrained(t *testing.T) {
	t.Parallel()
	paused, went := true, 0
	steps := replaced(t, machine.StepPaused, func(step machine.Step) machine.Step {
		step.Run = func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			if paused {
				return s.Pause(metav1.ConditionTrue, "Holiday", "until Monday"), nil
			}
			return machine.Result{}, nil
		}
		return step
	})
	steps = steps.InsertAfter(machine.StepPaused, machine.Step{Name: "next", On: engine.InBoth,
		Run: func(context.Context, *machine.Scope) (machine.Result, error) {
			went++
			return machine.Result{}, nil
		}})
	p := newPassesByHand(t, machine.Options{Steps: steps, Options: engine.Options{StatusDelay: -1}})
	for range 2 {
		obj, _ := p.read()
		_, err := p.ReconcileObject(t.Context(), obj)
		require.NoError(t, err)
	}
	_, state := p.read()
	require.Zero(t, went)
	require.Len(t, state.Conditions, 1, "nothing else is said of a paused Machine")
	require.Equal(t, "Holiday: until Monday", state.Conditions[0].Reason+": "+state.Conditions[0].Message)
	require.NotEmpty(t, state.Finalizers)
	p.Forget(types.NamespacedName{Namespace: "default", Name: "m1"})
}

var serverGVK = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Server"}

// Server is an embedder's own Go type. What it has no field for is not kept: it needs neither timeouts nor hooks.
type Server struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              struct {
		InstanceID string  `json:"instanceID,omitempty"`
		UserData   *string `json:"userData,omitempty"`
	} `json:"spec,omitzero"`
	Status struct {
		Stage        string             `json:"stage,omitempty"`
		Node         string             `json:"node,omitempty"`
		NodeUID      types.UID          `json:"nodeUID,omitempty"`
		Created      *bool              `json:"created,omitempty"`
		DrainStarted metav1.Time        `json:"drainStarted,omitzero"`
		Conditions   []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

type ServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Server `json:"items"`
}

func (s *Server) DeepCopyObject() runtime.Object {
	c := *s
	c.ObjectMeta = *s.ObjectMeta.DeepCopy()
	if s.Spec.UserData != nil {
		c.Spec.UserData = new(*s.Spec.UserData)
	}
	if s.Status.Created != nil {
		c.Status.Created = new(*s.Status.Created)
	}
	c.Status.Conditions = slices.Clone(s.Status.Conditions)
	return &c
}

func (l *ServerList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	for i := range c.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*Server)
	}
	return &c
}

func readServer(s *Server, into *contract.MachineState) error {
	into.Metadata.From(s)
	into.ProviderID, into.DataSecretName = s.Spec.InstanceID, contract.SomeAt(s.Spec.UserData)
	into.Phase, into.Node = s.Status.Stage, contract.NodeRef{Name: s.Status.Node, UID: s.Status.NodeUID}
	into.InfrastructureReady = contract.SomeAt(s.Status.Created)
	into.DrainStarted = s.Status.DrainStarted.UTC()
	into.Conditions = s.Status.Conditions
	return nil
}

func writeServer(s *Server, u contract.MachineUpdate) error {
	u.MetadataUpdate.ApplyTo(s)
	u.ProviderID.ApplyTo(&s.Spec.InstanceID)
	u.DataSecretName.ApplyToPointer(&s.Spec.UserData)
	u.Phase.ApplyTo(&s.Status.Stage)
	node := contract.NodeRef{Name: s.Status.Node, UID: s.Status.NodeUID}
	u.Node.ApplyTo(&node)
	s.Status.Node, s.Status.NodeUID = node.Name, node.UID
	u.InfrastructureReady.ApplyToPointer(&s.Status.Created)
	u.DrainStarted.ApplyTo(&s.Status.DrainStarted.Time)
	s.Status.Conditions = contract.UpdatedConditions(s.Status.Conditions, u.Conditions, u.RemoveConditions)
	return nil
}

func serverKind(statusSubresource bool) contract.Kind {
	kind := contract.NewTyped(serverGVK, func() *Server { return &Server{} }, func() runtime.Object { return &ServerList{} }, readServer,
		writeServer)
	kind.StatusSubresource = statusSubresource
	return kind
}

func serverScheme(add func(*runtime.Scheme) error) *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = add(scheme)
	scheme.AddKnownTypes(serverGVK.GroupVersion(), &Server{}, &ServerList{})
	metav1.AddToGroupVersion(scheme, serverGVK.GroupVersion())
	return scheme
}
