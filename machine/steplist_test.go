package machine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
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
			after.refused = "step own stands behind remove-finalizer"
		}
	}
	return all
}

// allGo waits until the Machines of all lists are gone, and what belongs to them.
func (w *world) allGo(lists []*stepList, machines map[string]*unstructured.Unstructured) {
	w.t.Helper()
	for _, l := range lists {
		w.goes(machines[l.name], fake.InfraMachine(contract.V1Beta2, l.name), fake.BootstrapConfig(contract.V1Beta2, l.name))
		if !l.leaves {
			w.eventually(l.name+": its Node goes", func() string {
				if w.node(l.name) != nil {
					return "it is still there"
				}
				return ""
			})
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
		if l.early > 0 && !l.any {
			t.Errorf("%s: the step of the embedder ran %d times before the finalizer was stored", l.name, l.early)
		}
		l.mu.Unlock()
	}
	first := w.firstWrites()
	for _, l := range lists {
		require.Equal(t, "Machine", first[l.name], "%s: the finalizer is stored before anything else is touched", l.name)
	}
	w.isQuiet()
	for _, l := range lists {
		require.NoError(t, w.client.Delete(t.Context(), machines[l.name]))
	}
	w.allGo(lists, machines)
	for name, order := range w.drainedFirst() {
		if !order && machines[name] != nil && !strings.HasPrefix(name, "without-") {
			t.Errorf("%s: its infrastructure was deleted before its Node was cordoned", name)
		}
	}
	w.isQuiet()
}

// comesTo waits until a Machine has come as far as it can.
func (w *world) comesTo(l *stepList, m *unstructured.Unstructured) {
	w.t.Helper()
	w.eventually(l.name+" to be ready", func() string {
		fresh := w.get(m)
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
