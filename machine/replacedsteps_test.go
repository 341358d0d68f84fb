package machine_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/phases"
)

// replaced are the default steps with one replaced by what a function makes of it.
func replaced(t *testing.T, name string, with func(machine.Step) machine.Step) engine.Steps[*machine.Scope] {
	t.Helper()
	steps := machine.Steps()
	for _, step := range machine.Steps() {
		if step.Name == name {
			steps = steps.Replace(name, with(step))
		}
	}
	return steps
}

// drainsAndGoes deletes a Machine, and makes sure that its Node is drained first and goes too.
func (w *world) drainsAndGoes(m *unstructured.Unstructured, node string) {
	w.t.Helper()
	w.isQuiet()
	require.NoError(w.t, w.client.Delete(w.t.Context(), m))
	w.goes(m, fake.InfraMachine(contract.V1Beta2, m.GetName()), fake.BootstrapConfig(contract.V1Beta2, m.GetName()))
	require.Nil(w.t, w.node(node), "the Node stays")
	cordoned, deleted, config := -1, -1, false
	for i, r := range w.store.Requests() {
		switch {
		case r.UserAgent != userAgent:
		case r.Verb == "patch" && r.GVK.Kind == "Node" && cordoned < 0:
			cordoned = i
		case r.Verb == "delete" && r.GVK.Kind == "FakeMachine" && deleted < 0:
			deleted = i
		case r.Verb == "delete" && r.GVK.Kind == "FakeConfig":
			config = true
		}
	}
	require.True(w.t, cordoned >= 0 && cordoned < deleted, "the Node is cordoned (%d) before the machine goes (%d)", cordoned, deleted)
	require.True(w.t, config, "the bootstrap configuration is not left to the garbage collector")
	w.isQuiet()
}

// The step finds what the one of this package has set, sets it to something else, and asks for a checkpoint in every pass.
func TestAWrappedInfrastructureStepIsWhatCountsInADeletion(t *testing.T) {
	t.Parallel()
	edge := func(name string) string { return "edge://" + name }
	options := worldOptions{}
	options.infrastructure.Node = func(obj *unstructured.Unstructured, _ string) *corev1.Node {
		return fake.Node(obj.GetName(), edge(obj.GetName()))
	}
	options.machine.Steps = replaced(t, machine.StepInfrastructure, func(inner machine.Step) machine.Step {
		return machine.Step{Name: inner.Name, On: engine.InBoth, Run: func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
			result, err := inner.Run(ctx, s)
			s.SetProviderID(edge(s.State.Key.Name))
			result.Checkpoint = true
			return result, err
		}}
	})
	w := newWorld(t, options)
	m := w.machineWith("m1")
	w.reaches(m, "Running")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	w.drainsAndGoes(m, "m1")
}

// It must not end each second pass, between what the deletion says before the drain and in it.
func TestACheckpointInEveryPassCostsADeletionNoWrites(t *testing.T) {
	t.Parallel()
	var passes atomic.Int64
	steps := replaced(t, machine.StepPreDrainHooks, func(inner machine.Step) machine.Step {
		return machine.Step{Name: inner.Name, On: inner.On, Run: func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
			passes.Add(1)
			result, err := inner.Run(ctx, s)
			result.Checkpoint = true
			return result, err
		}}
	})
	w := newWorld(t, worldOptions{machine: machine.Options{Options: engine.Options{StatusDelay: -1}, Steps: steps}})
	m := w.blocked("m1")["m1"]
	w.conditionSays(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "disruption budget")
	w.isQuiet() // the drain has said all that it has to say
	w.store.ResetRequests()
	for i := range 5 {
		before := passes.Load()
		w.annotate(m, map[string]any{"example.com/wake": strconv.Itoa(i)})
		w.eventually("a pass", func() string {
			if passes.Load() == before {
				return "there is none"
			}
			return ""
		})
	}
	require.LessOrEqual(t, w.writes()["Machine/status"], 2)
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode)
}

// The Node has no provider ID, and only the step of the embedder knows whose it is.
func TestTheNodeOfAReplacedNodeStepIsDrainedAndDeleted(t *testing.T) {
	t.Parallel()
	options := worldOptions{}
	options.infrastructure.Node = func(obj *unstructured.Unstructured, _ string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "host-of-" + obj.GetName()},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
	}
	options.machine.Steps = replaced(t, machine.StepNode, func(inner machine.Step) machine.Step {
		return machine.Step{Name: inner.Name, On: engine.InBoth, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			if s.NodesSynced = s.NodesErr == nil && s.Workload.Nodes.HasSynced(); !s.NodesSynced {
				return machine.Result{RequeueAfter: time.Second}, nil
			}
			said := metav1.Condition{Status: metav1.ConditionFalse, Reason: machine.ReasonNodeDoesNotExist}
			if node := s.Workload.Nodes.ByName("host-of-" + s.State.Key.Name); node != nil {
				s.Node = noderef.Match{Outcome: noderef.Matched, Node: node}
				s.SetNode(contract.NodeRef{Name: node.Name, UID: node.UID})
				said = metav1.Condition{Status: metav1.ConditionTrue, Reason: machine.ReasonNodeReady}
			} else {
				s.Node = noderef.Match{Outcome: noderef.NotFound}
			}
			for _, said.Type = range []string{contract.ConditionNodeReady, machine.ConditionNodeHealthy} {
				s.Assert(said)
			}
			return machine.Result{RequeueAfter: 100 * time.Millisecond}, nil
		}}
	})
	w := newWorld(t, options)
	m := w.machineWith("m1")
	w.reaches(m, "Running")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	w.drainsAndGoes(m, "host-of-m1")
}

// Steps for running Machines alone, and none at all, must not leave behind what the Machine refers to.
func TestWhatNoStepOfADeletionHasLookedAtIsDeletedAllTheSame(t *testing.T) {
	t.Parallel()
	options := worldOptions{machine: machine.Options{Steps: replaced(t, machine.StepInfrastructure, func(step machine.Step) machine.Step {
		step.On = engine.InRunning
		return step
	})}}
	for i, step := range options.machine.Steps {
		if step.Name == machine.StepBootstrap {
			options.machine.Steps[i].On = engine.InRunning
		}
	}
	w := newWorld(t, options)
	m := w.machineWith("m1")
	w.reaches(m, "Running")
	w.drainsAndGoes(m, "m1")
}

func TestACheckpointHasEverythingWrittenAtOnceAndIsNoneWithoutAChange(t *testing.T) {
	t.Parallel()
	checkpoint, went, own := false, 0, metav1.Condition{Type: "Own", Status: metav1.ConditionFalse, Reason: "Begun"}
	steps := []machine.Step{
		{Name: "own", On: engine.InBoth, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			s.Assert(own)
			return machine.Result{Checkpoint: checkpoint}, nil
		}},
		{Name: "next", On: engine.InBoth, Run: func(context.Context, *machine.Scope) (machine.Result, error) {
			went++
			return machine.Result{}, nil
		}},
	}
	p := newPassesByHand(t, machine.Options{Steps: steps, Options: engine.Options{StatusDelay: time.Hour}})
	pass := func() string {
		obj, _ := p.read()
		_, err := p.ReconcileObject(t.Context(), obj)
		require.NoError(t, err)
		_, state := p.read()
		require.Len(t, state.Conditions, 1)
		return state.Conditions[0].Reason
	}
	require.Equal(t, "Begun", pass())
	own = metav1.Condition{Type: "Own", Status: metav1.ConditionTrue, Reason: "Done"}
	require.Equal(t, "Begun", pass(), "without a checkpoint, a status waits")
	require.Equal(t, 2, went)
	checkpoint = true
	require.Equal(t, "Done", pass())
	require.Equal(t, 2, went, "the pass ends")
	require.Equal(t, "Done", pass())
	require.Equal(t, 3, went, "what is stored is no reason to end it")
}

// The standard steps take a provider ID over when the infrastructure is ready: without it no Node is anybody's.
func TestTheStandardStepsProvisionUntilTheInfrastructureIsReady(t *testing.T) {
	t.Parallel()
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	steps := machine.Steps().Replace(machine.StepPhase, machine.PhaseStep(phases.ClusterAPIV1Alpha3(), machine.ClusterAPIFacts))
	w := newWorld(t, worldOptions{kind: kind, noCRDs: true, machine: machine.Options{
		Options: engine.Options{StatusDelay: -1}, Steps: steps,
	}})
	w.create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
	m := fake.Machine("m1", fake.WithField(map[string]any{"dataSecretName": "mine"}, "spec", "bootstrap"))
	w.create(fake.InfraMachine(contract.V1Beta2, "m1"), m, fake.Node("m1", "fake://m1"))
	w.setInfra("m1", map[string]any{"initialization": map[string]any{"provisioned": false}}, "fake://m1")
	phaseIs := func(want phases.Phase) {
		t.Helper()
		w.eventually("phase "+string(want), func() string {
			phase, _, _ := unstructured.NestedString(w.get(m).Object, "status", "phase")
			id, _, _ := unstructured.NestedString(w.get(m).Object, "spec", "providerID")
			if phase != string(want) || (id != "") != (want != phases.Provisioning) {
				return fmt.Sprintf("it is %s, with provider ID %q", phase, id)
			}
			return ""
		})
	}
	phaseIs(phases.Provisioning)
	w.setInfra("m1", map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://m1")
	phaseIs(phases.Running)
}
