package machine_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/phases"
)

// stepList is a changed list of steps, and one Machine that is led by it. Its Reconciler, its label and all of its objects have its name.
type stepList struct {
	name  string
	steps []machine.Step
	// refused is what New says, empty for a list that works.
	refused string
	// idle: a Machine cannot come to a Node with this list. leaves: its Node stays when it goes.
	idle, leaves bool
	// any: the step of the embedder may run before the finalizer is stored; early is how often it did.
	any   bool
	mu    sync.Mutex
	early int
}

// looks returns a step of the embedder, which does nothing.
func (l *stepList) looks(closing bool) machine.Step {
	return machine.Step{Name: "own", On: engine.InBoth, Closing: closing,
		Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if len(s.Object.GetFinalizers()) == 0 && s.Object.GetDeletionTimestamp() == nil {
				l.early++
			}
			return machine.Result{}, nil
		}}
}

// stepLists are the default steps with each step removed, replaced by a copy of itself, and with one of the embedder before and after it.
func stepLists(t *testing.T) []*stepList {
	t.Helper()
	all := []*stepList{{name: "default", steps: machine.Steps()}}
	add := func(what string, steps []machine.Step) *stepList {
		all = append(all, &stepList{name: strings.ReplaceAll(what, " ", "-"), steps: steps})
		return all[len(all)-1]
	}
	for _, step := range machine.Steps() {
		removed := add("without "+step.Name, machine.Steps().Remove(step.Name))
		removed.refused = map[string]string{
			machine.StepFinalizer: "no step finalizer", machine.StepRemoveFinalizer: "no step remove-finalizer",
			machine.StepNode:  "step drain needs step node in front of it",
			machine.StepDrain: "step volumes needs step drain in front of it",
		}[step.Name]
		removed.idle = step.Name == machine.StepBootstrap || step.Name == machine.StepInfrastructure
		removed.leaves = removed.idle || step.Name == machine.StepDeleteNode
		add("copied "+step.Name, machine.Steps().Replace(step.Name, machine.Step{Name: step.Name, On: step.On, Closing: step.Closing,
			ObjectOnly: step.ObjectOnly, Run: step.Run}))

		before, after := add("before "+step.Name, nil), add("after "+step.Name, nil)
		before.any, after.any = step.Closing || step.Name == machine.StepFinalizer, step.Closing
		before.steps = machine.Steps().InsertBefore(step.Name, before.looks(step.Closing))
		after.steps = machine.Steps().InsertAfter(step.Name, after.looks(step.Closing))
		if step.Name == machine.StepRemoveFinalizer {
			after.refused = "step own is after remove-finalizer"
		}
	}
	return all
}

// allGo waits until the Machines of all lists are gone, and what belongs to them.
func (w *world) allGo(lists []*stepList, machines map[string]*unstructured.Unstructured) {
	w.t.Helper()
	for _, l := range lists {
		w.Gone(machines[l.name], fake.InfraMachine(contract.V1Beta2, l.name), fake.BootstrapConfig(contract.V1Beta2, l.name))
		if !l.leaves {
			w.Until(l.name+": its Node goes", func() bool { return w.node(l.name) == nil })
		}
	}
}

// Each list has a Machine of its own. A world for each would take minutes, and in a world of all, each of them hears of all others.
func TestAMachineLivesAndDiesWithEveryStepRemovedReplacedAndInserted(t *testing.T) {
	t.Parallel()
	for lists := range slices.Chunk(stepLists(t), 12) {
		t.Run(lists[0].name, func(t *testing.T) { liveAndDie(t, lists) })
	}
}

func liveAndDie(t *testing.T, lists []*stepList) {
	t.Helper()
	w := newWorld(t, worldOptions{machine: machine.Options{
		Options: engine.Options{WatchFilter: "none"},
	}, ports: func(mgr ctrl.Manager, ports *machine.Ports) {
		for _, l := range lists {
			r, err := machine.New(contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine), *ports, machine.Options{
				Options: engine.Options{Name: l.name, WatchFilter: l.name, StatusDelay: 300 * time.Millisecond}, Steps: l.steps})
			if l.refused != "" {
				require.ErrorContains(t, err, l.refused, l.name)
				continue
			}
			require.NoError(t, err, l.name)
			require.NoError(t, r.AddToManager(t.Context(), mgr), l.name)
		}
	}})
	lists = slices.DeleteFunc(lists, func(l *stepList) bool { return l.refused != "" })
	machines := map[string]*unstructured.Unstructured{}
	for _, l := range lists {
		machines[l.name] = w.machineWith(l.name, fake.WithLabels(map[string]string{contract.WatchFilterLabel: l.name}))
	}
	for _, l := range lists {
		w.comesTo(l, machines[l.name])
	}
	for _, l := range lists {
		l.mu.Lock()
		require.False(t, l.early > 0 && !l.any, "%s: the step of the embedder ran %d times before the finalizer was stored", l.name, l.early)
		l.mu.Unlock()
	}
	first := w.firstWrites()
	for _, l := range lists {
		require.Equal(t, "Machine", first[l.name], "%s: the finalizer is stored before anything else is touched", l.name)
	}
	w.isQuiet()
	for _, l := range lists {
		w.Delete(machines[l.name])
	}
	w.allGo(lists, machines)
	for name, order := range w.drainedFirst() {
		require.False(t, !order && machines[name] != nil && !strings.HasPrefix(name, "without-"))
	}
	w.isQuiet()
}

// comesTo waits until a Machine has come as far as it can.
func (w *world) comesTo(l *stepList, m *unstructured.Unstructured) {
	w.t.Helper()
	w.Eventually(l.name+" to be ready", func() string {
		fresh := w.Get(m)
		phase, _, _ := unstructured.NestedString(fresh.Object, "status", "phase")
		ready := conditionOf(fresh, contract.ConditionReady)
		switch {
		case l.idle && len(fresh.GetFinalizers()) > 0,
			(phase == "Running" || l.name == "without-phase") && (ready.Status == "True" || l.name == "without-conditions"):
			return ""
		}
		return fmt.Sprintf("phase %q; conditions: %s", phase, describe(fresh))
	})
}

// firstWrites returns by name the kind that the reconcilers wrote first.
func (w *world) firstWrites() map[string]string {
	first := map[string]string{}
	for _, r := range w.store.Requests() {
		if r.UserAgent == userAgent && r.IsWrite() && r.GVK.Kind != "Event" && first[r.Name] == "" {
			first[r.Name] = r.GVK.Kind
		}
	}
	return first
}

// drainedFirst says of each name whose infrastructure was deleted whether its Node was written before.
func (w *world) drainedFirst() map[string]bool {
	cordoned, order := map[string]bool{}, map[string]bool{}
	for _, r := range w.store.Requests() {
		if r.UserAgent != userAgent {
			continue
		}
		cordoned[r.Name] = cordoned[r.Name] || (r.Verb == "patch" && r.GVK.Kind == "Node")
		if _, seen := order[r.Name]; r.Verb == "delete" && r.GVK.Kind == "FakeMachine" && !seen {
			order[r.Name] = cordoned[r.Name]
		}
	}
	return order
}

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
	w.Delete(m)
	w.Gone(m, fake.InfraMachine(contract.V1Beta2, m.GetName()), fake.BootstrapConfig(contract.V1Beta2, m.GetName()))
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
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "disruption budget")
	w.isQuiet() // the drain has said all that it has to say
	w.store.ResetRequests()
	for i := range 5 {
		before := passes.Load()
		w.annotate(m, map[string]any{"example.com/wake": strconv.Itoa(i)})
		w.Until("a pass", func() bool { return passes.Load() != before })
	}
	require.LessOrEqual(t, w.writes()["Machine/status"], 2)
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode)
}

// The Node has no provider ID, and only the step of the embedder knows whose it is.
func TestTheNodeOfAReplacedNodeStepIsDrainedAndDeleted(t *testing.T) {
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
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	steps := machine.Steps().Replace(machine.StepPhase, machine.PhaseStep(phases.ClusterAPIV1Alpha3(), machine.ClusterAPIFacts))
	w := newWorld(t, worldOptions{kind: kind, noCRDs: true, machine: machine.Options{Options: engine.Options{StatusDelay: -1}, Steps: steps}})
	w.Create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
	m := fake.Machine("m1", fake.WithField(map[string]any{"dataSecretName": "mine"}, "spec", "bootstrap"))
	w.Create(fake.InfraMachine(contract.V1Beta2, "m1"), m, fake.Node("m1", "fake://m1"))
	w.setInfra("m1", map[string]any{"initialization": map[string]any{"provisioned": false}}, "fake://m1")
	phaseIs := func(want phases.Phase) {
		t.Helper()
		w.Until("phase "+string(want), func() bool {
			phase, _, _ := unstructured.NestedString(w.Get(m).Object, "status", "phase")
			id, _, _ := unstructured.NestedString(w.Get(m).Object, "spec", "providerID")
			return phase == string(want) && (id != "") == (want != phases.Provisioning)
		})
	}
	phaseIs(phases.Provisioning)
	w.setInfra("m1", map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://m1")
	phaseIs(phases.Running)
}
