package simulation_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/simulation"
	"github.com/machinist-dev/machinist/machine"
)

// boxes is an operator with a kind and a step of its own: a Box is racked before its instance is made.
func boxes() *simulation.Operator {
	gvk := schema.GroupVersionKind{Group: "edge.example.com", Version: "v1", Kind: "Box"}
	box := func(name string) client.Object {
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterName": "c1"}}}
		obj.SetGroupVersionKind(gvk)
		obj.SetNamespace("default")
		obj.SetName(name)
		return obj
	}
	return &simulation.Operator{
		Kinds: []fake.ServedKind{{GVK: gvk, Status: true}}, Objects: []client.Object{box("a"), box("b")},
		SetUp: func(ctx context.Context, m simulation.Manager) ([]simulation.Reconciler, error) {
			steps, err := simulation.MachineSteps(m)
			if err != nil {
				return nil, err
			}
			step := machine.Step{Name: "example.com/rack", On: engine.InRunning, Run: rack}
			if steps, err = engine.InsertBefore(steps, machine.StepInfrastructure, step); err != nil {
				return nil, err
			}
			r, err := machine.New(contract.Unstructured(gvk, contract.MachineV1Beta2()), machine.Ports{Ports: m.Ports, Workload: m.Workload},
				machine.Options{Steps: steps, Clock: m.Clock})
			if err != nil {
				return nil, err
			}
			return []simulation.Reconciler{{Kind: "Box", Reconcile: r.Reconcile}}, r.IndexMachines(ctx)
		},
		Missing: func(w *simulation.World) string {
			for _, obj := range w.Objects("Box") {
				if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase != "Running" {
					return fmt.Sprintf("Box %s is %s", obj.GetName(), phase)
				}
			}
			return ""
		},
	}
}

func rack(_ context.Context, s *machine.Scope) (machine.Result, error) {
	s.Update.Annotations = map[string]contract.Change[string]{"example.com/racked": contract.SetTo("true")}
	return machine.Result{}, nil
}

// An operator with a kind of its own goes through the same histories: Boxes with one step more. A backup that is restored is left out: it may
// bring back a Box whose instance is gone, and then a person has to make another one.
func TestAnOperatorOfAnotherKindIsSimulated(t *testing.T) {
	t.Parallel()
	s := simulation.Seeds{From: *first, Count: cmp.Or(*seeds, 40), Options: simulation.Options{
		Operator: boxes(),
		Faults:   slices.DeleteFunc(simulation.AllFaults(), func(f simulation.Fault) bool { return f == simulation.UserRestores }),
	}}
	report, err := simulation.RunSeeds(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, s.Count, report.Histories)
	require.Empty(t, report.Failed)
}
