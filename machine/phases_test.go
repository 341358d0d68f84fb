package machine_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/phases"
)

// life is one Machine whose driver does what annotations of the Machine tell it, so that a test decides when each thing happens.
type life struct {
	*world

	kind contract.Kind
	m    *unstructured.Unstructured

	mu      sync.Mutex
	decided phases.Decision
}

// What the driver is told.
const (
	sayData        = "example.com/data"
	sayID          = "example.com/id"
	sayProvisioned = "example.com/provisioned"
	sayAddress     = "example.com/address"
	sayFailure     = "example.com/failure"
	sayUpdate      = "example.com/update"
	holdHook       = contract.PreTerminateHook + "/test"
)

func newLife(t *testing.T, kind contract.Kind, phase machine.Step) *life {
	t.Helper()
	l := &life{kind: kind}
	options := worldOptions{kind: kind, noCRDs: true, machine: machine.Options{
		Options: engine.Options{StatusDelay: -1}, Steps: l.steps(t, phase),
	}}
	l.world = newWorld(t, options)
	l.m = testenv.Object(kind.GVK, "m1")
	l.m.SetFinalizers([]string{hold})
	return l
}

func (l *life) steps(t *testing.T, phase machine.Step) []machine.Step {
	t.Helper()
	return machine.Steps().Remove(machine.StepBootstrap).Remove(machine.StepInfrastructure).
		InsertBefore(machine.StepNode, machine.Step{Name: "driver", On: engine.InRunning, Run: drive}).
		Replace(machine.StepPhase, phase).
		InsertAfter(machine.StepPhase, machine.Step{Name: "listen", On: engine.InBoth, Closing: true, Run: l.listen})
}

func drive(_ context.Context, s *machine.Scope) (machine.Result, error) {
	if s.State.Annotations[machine.KubermaticInitializers] != "" {
		return machine.Result{Stop: true}, nil
	}
	if s.State.Annotations[sayData] != "" {
		s.SetBootstrapReady()
	}
	if id := s.State.Annotations[sayID]; id != "" {
		s.SetProviderID(id)
	}
	if s.State.Annotations[sayProvisioned] != "" {
		s.SetInfrastructureReady()
	}
	if address := s.State.Annotations[sayAddress]; address != "" {
		s.SetAddresses([]contract.Address{{Type: "InternalIP", Address: address}})
	}
	s.SetFailure(s.State.Annotations[sayFailure], s.State.Annotations[sayFailure])
	switch s.State.Annotations[sayUpdate] {
	case "started":
		s.Assert(engine.Condition(contract.ConditionUpdating, metav1.ConditionTrue, contract.ReasonUpdating, ""))
	case "failed":
		s.Assert(engine.Condition(contract.ConditionUpdating, metav1.ConditionTrue, machine.ReasonInPlaceUpdateFailed, ""))
	}
	return machine.Result{}, nil
}

func (l *life) listen(_ context.Context, s *machine.Scope) (machine.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decided = s.Phase
	return machine.Result{}, nil
}

// act is what happens next, and the phase that the Machine comes to by it, with why and what is waited for.
type act struct {
	what   func(*life)
	phase  phases.Phase
	reason string
	gate   phases.Gate
}

func (l *life) plays(acts ...act) {
	l.t.Helper()
	for i, a := range acts {
		a.what(l)
		want := phases.Decision{Phase: a.phase, Reason: a.reason, Waiting: a.gate}
		l.Eventually(fmt.Sprintf("act %d: %s because of %s", i, a.phase, a.reason), func() string {
			l.mu.Lock()
			decided := l.decided
			l.mu.Unlock()
			if state := l.state(); state.Phase != string(a.phase) || decided != want {
				text := fmt.Sprintf("stored %q, decided %+v", state.Phase, decided)
				for _, c := range state.Conditions {
					text += fmt.Sprintf("\n  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
				}
				return text
			}
			return ""
		})
	}
	for _, r := range l.store.Requests() { // a conflict is with what the test wrote meanwhile
		require.False(l.t, r.UserAgent == userAgent && r.IsWrite() && r.Code >= 300 && r.Code != http.StatusConflict && r.GVK.Kind != "Event")
	}
}

func (l *life) state() contract.MachineState {
	l.t.Helper()
	var state contract.MachineState
	require.NoError(l.t, l.kind.Adapter.Read(l.Get(l.m), &state))
	return state
}

func says(annotation, value string) func(*life) {
	return func(l *life) {
		l.t.Helper()
		fresh := l.Get(l.m)
		base := fresh.DeepCopy()
		annotations := fresh.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotation] = value
		if value == "" {
			delete(annotations, annotation)
		}
		fresh.SetAnnotations(annotations)
		require.NoError(l.t, l.client.Patch(l.t.Context(), fresh, client.MergeFrom(base)))
	}
}

func created(l *life) { l.Create(l.m.DeepCopy()) }

// held creates a Machine that is held back.
func held(l *life) {
	m := l.m.DeepCopy()
	m.SetAnnotations(map[string]string{machine.KubermaticInitializers: "wait"})
	l.Create(m)
}

// joins has a Node appear that is not Ready; it registers with that, or the kubelet of the store would make it Ready.
func joins(l *life) {
	node := fake.Node("m1", "fake://m1")
	node.Status.Conditions = conditionsOf(corev1.ConditionFalse)
	l.Create(node)
}

func nodeIs(ready corev1.ConditionStatus) func(*life) {
	return func(l *life) {
		l.t.Helper()
		node := l.node("m1")
		base := node.DeepCopy()
		node.Status.Conditions = conditionsOf(ready)
		require.NoError(l.t, l.client.Status().Patch(l.t.Context(), node, client.MergeFrom(base)))
	}
}

// conditionsOf returns those of a Node without pressure.
func conditionsOf(ready corev1.ConditionStatus) []corev1.NodeCondition {
	all := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "Test"}}
	for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		all = append(all, corev1.NodeCondition{Type: pressure, Status: corev1.ConditionFalse})
	}
	return all
}

// deleted asks for the deletion, which waits for a hook before the machine itself goes.
func deleted(l *life) {
	says(holdHook, "a person")(l)
	l.Delete(l.m.DeepCopy())
}

func TestAMachineLivesInTheWordsOfClusterAPI(t *testing.T) {
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	newLife(t, kind, machine.PhaseStep(phases.ClusterAPI(), machine.ClusterAPIFacts)).plays(
		act{created, phases.Pending, "WaitingForBootstrapData", phases.GateBootstrapData},
		act{says(sayData, "yes"), phases.Provisioning, "BootstrapDataCreated", phases.GateInfrastructure},
		act{says(sayProvisioned, "yes"), phases.Provisioned, "InfrastructureProvisioned", phases.GateNode},
		act{says(sayID, "fake://m1"), phases.Provisioned, "InfrastructureProvisioned", phases.GateNode},
		act{joins, phases.Running, "NodeJoined", phases.GateNone},
		act{says(sayFailure, "Broken"), phases.Running, "NodeJoined", phases.GateNone},
		act{says(sayUpdate, "started"), phases.Updating, "UpdatingInPlace", phases.GateUpdate},
		act{says(sayUpdate, ""), phases.Running, "NodeJoined", phases.GateNone},
		act{deleted, phases.Deleting, "DeletionRequested", phases.GateDeletion},
	)
}

// The rule of the oldest dialect: a Machine is Provisioned when its Node appears, and Running when its infrastructure is ready too.
func TestAMachineLivesInTheWordsOfClusterAPIV1Alpha3(t *testing.T) {
	t.Parallel()
	kind := contract.Unstructured(fake.MachineGVK().GroupKind().WithVersion("v1beta1"), contract.LayoutsOf(contract.V1Beta1).Machine)
	step := machine.PhaseStep(phases.ClusterAPIV1Alpha3(), machine.ClusterAPIFacts)
	begun := []act{
		{created, phases.Pending, "WaitingForBootstrapData", phases.GateBootstrapData},
		{says(sayData, "yes"), phases.Provisioning, "BootstrapDataCreated", phases.GateInfrastructure},
		{says(sayID, "fake://m1"), phases.Provisioning, "BootstrapDataCreated", phases.GateInfrastructure},
	}
	ends := []act{
		{says(sayFailure, "Broken"), phases.Failed, "FailureReported", phases.GateRepair},
		{says(sayFailure, ""), phases.Running, "NodeJoined", phases.GateNone},
		{deleted, phases.Deleting, "DeletionRequested", phases.GateDeletion},
	}
	t.Run("the Node appears first", func(t *testing.T) {
		l := newLife(t, kind, step)
		l.plays(begun...)
		l.plays(act{joins, phases.Provisioned, "NodeAppeared", phases.GateInfrastructure},
			act{says(sayProvisioned, "yes"), phases.Running, "NodeJoined", phases.GateNone})
		l.plays(ends...)
	})
	t.Run("the infrastructure is ready first", func(t *testing.T) {
		l := newLife(t, kind, step)
		l.plays(begun...)
		l.plays(act{says(sayProvisioned, "yes"), phases.Provisioning, "InfrastructureReady", phases.GateNode},
			act{joins, phases.Running, "NodeJoined", phases.GateNone})
		l.plays(ends...)
	})
}

func TestAMachineLivesInTheWordsOfKubermatic(t *testing.T) {
	kind := contract.Unstructured(schema.GroupVersionKind{Group: "cluster.k8s.io", Version: "v1alpha1", Kind: "Machine"},
		contract.KubermaticLayouts().Machine)
	kind.StatusSubresource = false
	l := newLife(t, kind, machine.PhaseStep(phases.Kubermatic(), machine.KubermaticFacts))
	l.plays(
		act{held, phases.Pending, "Held", phases.GateRepair},
		act{says(machine.KubermaticInitializers, ""), phases.Validating, "WaitingForValidation", phases.GateValidation},
		act{says(sayFailure, "InvalidConfiguration"), phases.Failed, "FailureReported", phases.GateRepair},
		act{says(sayFailure, ""), phases.Validating, "WaitingForValidation", phases.GateValidation},
		act{says(sayData, "yes"), phases.Provisioning, "CreatingInstance", phases.GateInfrastructure},
		act{says(sayID, "fake://m1"), phases.Provisioning, "WaitingForAddresses", phases.GateInfrastructure},
		act{says(sayAddress, "10.0.0.1"), phases.Joining, "WaitingForNode", phases.GateNode},
		act{joins, phases.Joining, "WaitingForNodeToBeReady", phases.GateHealth},
		act{nodeIs(corev1.ConditionTrue), phases.Running, "NodeReady", phases.GateNone},
		act{nodeIs(corev1.ConditionFalse), phases.Running, "NodeReady", phases.GateNone}, // a condition tells
	)
	require.Equal(t, string(phases.Running), l.says(kind, l.m, contract.ConditionNodeReady, machine.ReasonNodeNotReady).Phase)
	l.plays(
		act{nodeIs(corev1.ConditionTrue), phases.Running, "NodeReady", phases.GateNone},
		act{deleted, phases.Deleting, "DeletionRequested", phases.GateDeletion},
		act{says(holdHook, ""), phases.Deleted, "CleanedUp", phases.GateNone},
	)
	require.Nil(t, l.node("m1"))
}

func TestAMachineLivesInTheWordsOfGardener(t *testing.T) {
	kind := contract.Unstructured(schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "Machine"},
		contract.GardenerLayouts().Machine)
	newLife(t, kind, machine.PhaseStep(phases.Gardener(), machine.GardenerFacts)).plays(
		act{created, phases.Pending, "CreatingInstance", phases.GateInfrastructure},
		act{says(sayFailure, "OutOfQuota"), phases.CrashLoopBackOff, "CreateFailed", phases.GateInfrastructure},
		act{says(sayFailure, ""), phases.Pending, "CreatingInstance", phases.GateInfrastructure},
		act{says(sayID, "fake://m1"), phases.Pending, "WaitingForNode", phases.GateNode},
		act{joins, phases.Pending, "WaitingForNode", phases.GateNode},
		act{nodeIs(corev1.ConditionTrue), phases.Running, "NodeHealthy", phases.GateNone},
		act{nodeIs(corev1.ConditionFalse), phases.Unknown, "NodeUnhealthy", phases.GateHealth},
		act{nodeIs(corev1.ConditionTrue), phases.Running, "NodeHealthy", phases.GateNone},
		act{says(sayUpdate, "started"), phases.InPlaceUpdating, "UpdateStarted", phases.GateUpdate},
		act{says(sayUpdate, "failed"), phases.InPlaceUpdateFailed, "UpdateFailed", phases.GateRepair},
		act{says(sayUpdate, ""), phases.Running, "NodeHealthy", phases.GateNone},
		act{deleted, phases.Terminating, "DeletionRequested", phases.GateDeletion},
	)
}

// A Machine that machine-controller-manager left as Failed stays so until its Node is healthy.
func TestAMachineOfGardenersThatFailedStaysSoUntilItsNodeIsHealthy(t *testing.T) {
	kind := contract.Unstructured(schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "Machine"},
		contract.GardenerLayouts().Machine)
	failed := func(l *life) {
		l.t.Helper()
		fresh := l.Get(l.m)
		base := fresh.DeepCopy()
		require.NoError(l.t, unstructured.SetNestedField(fresh.Object, string(phases.Failed), "status", "currentStatus", "phase"))
		require.NoError(l.t, l.client.Status().Patch(l.t.Context(), fresh, client.MergeFrom(base)))
	}
	newLife(t, kind, machine.PhaseStep(phases.Gardener(), machine.GardenerFacts)).plays(
		act{created, phases.Pending, "CreatingInstance", phases.GateInfrastructure},
		act{says(sayID, "fake://m1"), phases.Pending, "WaitingForNode", phases.GateNode},
		act{joins, phases.Pending, "WaitingForNode", phases.GateNode},
		act{nodeIs(corev1.ConditionTrue), phases.Running, "NodeHealthy", phases.GateNone},
		act{nodeIs(corev1.ConditionFalse), phases.Unknown, "NodeUnhealthy", phases.GateHealth},
		act{failed, phases.Failed, "NotHealthySince", phases.GateRepair},
		act{says(sayUpdate, "failed"), phases.Failed, "NotHealthySince", phases.GateRepair},
		act{says(sayUpdate, ""), phases.Failed, "NotHealthySince", phases.GateRepair},
		act{nodeIs(corev1.ConditionTrue), phases.Running, "NodeHealthy", phases.GateNone},
	)
}

func TestAPhaseStepWithoutATableIsRefused(t *testing.T) {
	t.Parallel()
	for _, step := range []machine.Step{
		machine.PhaseStep(nil, machine.ClusterAPIFacts), machine.PhaseStep[phases.Facts](phases.ClusterAPI(), nil),
	} {
		steps := machine.Steps().Replace(machine.StepPhase, step)
		_, err := machine.New(serverKind(true), machine.Ports{}, machine.Options{Steps: steps})
		require.ErrorContains(t, err, "a step needs a name and a function")
	}
}
