package machine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/phases"
)

// slowCall is how long a call of a slow driver takes: longer than a status waits for its next write.
const slowCall = 2 * time.Second

// slowly has some calls of a driver take long.
func slowly(ops ...provider.Operation) provider.Decorator {
	return provider.Around(func(ctx context.Context, op provider.Operation, _ *provider.Request, call func(context.Context) error) error {
		if slices.Contains(ops, op) {
			select {
			case <-ctx.Done():
			case <-time.After(slowCall):
			}
		}
		return call(ctx)
	})
}

// TestEachPhaseThatLastsAppears has a driver whose calls take longer than the status waits for its next write, and records each phase
// that is stored, in order. Nothing is measured: a phase that is never stored is missing, however fast the computer is.
func TestEachPhaseThatLastsAppears(t *testing.T) {
	t.Parallel()
	each := []provider.Operation{provider.OpValidate, provider.OpCreate, provider.OpDelete}
	for name, c := range map[string]struct {
		subresource bool     // for the status
		finalizers  []string // besides that of the test: a set creates its Machines with the one of their reconciler
		slow        []provider.Operation
		boot        time.Duration
		nodeless    bool // the Machine is deleted before it has a Node, so that nothing is drained
	}{
		"each call, with a status subresource":                    {true, nil, each, 0, false},
		"each call, without a status subresource":                 {false, nil, each, 0, false},
		"a Machine of a set":                                      {false, []string{contract.MachineFinalizer}, each, 0, false},
		"the creation alone":                                      {false, nil, []provider.Operation{provider.OpCreate}, 0, false},
		"the boot, and a deletion that the driver begins at once": {true, nil, nil, slowCall, false},
		"a deletion before there is a Node":                       {false, nil, []provider.Operation{provider.OpDelete}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := shapes()["Kubermatic, without a status subresource"].kind
			kind.StatusSubresource = c.subresource
			cloud := fake.NewDriver(fake.DriverOptions{Boot: c.boot, Vanish: c.boot})
			steps := machine.WithDriver(machine.Steps().Remove(machine.StepBootstrap), machine.DriverOptions{
				Calls: provider.Of(cloud, slowly(c.slow...)), Poll: 100 * time.Millisecond,
			}).Replace(machine.StepPhase, machine.PhaseStep(phases.Kubermatic(), machine.KubermaticFacts))
			w := newWorld(t, worldOptions{kind: kind, noCRDs: true,
				machine: machine.Options{Options: engine.Options{StatusDelay: engine.DefaultStatusDelay}, Steps: steps}})
			m := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
				"providerSpec": map[string]any{"value": map[string]any{"size": "small"}}}}}
			m.SetGroupVersionKind(kind.GVK)
			m.SetNamespace("default")
			m.SetName("m1")
			m.SetFinalizers(append(c.finalizers, hold))
			stored := w.watchesPhases(m)
			w.create(m)
			w.reaches(m, string(phases.Joining))
			want := []string{"Validating", "Provisioning", "Joining", "Deleting", "Deleted"}
			if !c.nodeless {
				want = slices.Insert(want, 3, "Running")
				id, _, _ := unstructured.NestedString(w.get(m).Object, "spec", "providerID")
				w.create(fake.Node("m1", id))
				w.reaches(m, string(phases.Running))
			}
			require.NoError(t, w.client.Delete(t.Context(), m))
			w.reaches(m, string(phases.Deleted))
			w.change(m, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
			require.Equal(t, want, stored())
		})
	}
}

// watchesPhases returns a function that waits for the end of an object, and returns the phases that were stored, each time one changed.
func (w *world) watchesPhases(m *unstructured.Unstructured) func() []string {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(m.GroupVersionKind().GroupVersion().WithKind(m.GetKind() + "List"))
	events, err := w.store.Client().Watch(w.t.Context(), list, client.InNamespace(m.GetNamespace()))
	require.NoError(w.t, err)
	w.t.Cleanup(events.Stop)
	return func() (all []string) {
		for event := range events.ResultChan() {
			obj, _ := event.Object.(*unstructured.Unstructured)
			phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
			if phase != "" && (len(all) == 0 || all[len(all)-1] != phase) {
				all = append(all, phase)
			}
			if event.Type == watch.Deleted {
				break
			}
		}
		return all
	}
}
