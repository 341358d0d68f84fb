package machine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/phases"
)

// shape is a kind of Machine that is no Machine of cluster.x-k8s.io/v1beta2.
type shape struct {
	kind contract.Kind
	// spec is what the user wrote.
	spec map[string]any
	// providers: bootstrap data and infrastructure come from provider objects, by the contract. Otherwise steps of the
	// embedder make them.
	providers bool
	// forNode: the spec has labels and annotations for the Node.
	forNode bool
	// running are the places of a running Machine, by dotted path (annotations by their key), with what must be there. NODE is
	// the UID of its Node.
	running map[string]any
	// lists are where the layout has the conditions, besides the first one.
	lists []contract.ConditionsField
}

func shapes() map[string]shape {
	kubermatic := contract.Unstructured(schema.GroupVersionKind{Group: "cluster.k8s.io", Version: "v1alpha1", Kind: "Machine"},
		contract.KubermaticLayouts().Machine)
	kubermatic.StatusSubresource = false
	inAnnotations := func(more map[string]any) map[string]any {
		more["machinist.dev/bootstrap-data-secret"], more["machinist.dev/bootstrap-data-secret-created"] = "m1-data", "true"
		more["machinist.dev/infrastructure-provisioned"] = "true"
		return more
	}
	reference := func(gvk schema.GroupVersionKind) map[string]any {
		return map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "namespace": "default", "name": "m1"}
	}
	server := map[string]any{
		"spec.instanceID": "fake://m1", "spec.userData": "m1-data", "status.stage": "Running", "status.node": "m1", "status.nodeUID": "NODE",
		"status.created": true,
	}
	return map[string]shape{
		"Kubermatic, without a status subresource": {
			kind: kubermatic, forNode: true,
			spec: map[string]any{"versions": map[string]any{"kubelet": "1.36.3"}, "metadata": nodeMetadata(),
				"providerSpec": map[string]any{"value": map[string]any{"cloudProvider": "fake"}}},
			running: inAnnotations(map[string]any{
				"spec.providerID": "fake://m1", "status.phase": "Running", "status.nodeRef.name": "m1", "status.nodeRef.kind": "Node",
				"status.nodeRef.apiVersion": "v1", "status.nodeRef.uid": "NODE",
			}),
		},
		"Gardener": {
			kind: contract.Unstructured(schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "Machine"},
				contract.GardenerLayouts().Machine),
			forNode: true,
			spec: map[string]any{"class": map[string]any{"kind": "MachineClass", "name": "small"}, "drainTimeout": "10m",
				"nodeTemplate": map[string]any{"metadata": nodeMetadata()}},
			running: inAnnotations(map[string]any{
				"spec.providerID": "fake://m1", "status.currentStatus.phase": "Running", "metadata.labels.node": "m1",
				contract.NodeUIDAnnotation: "NODE",
			}),
		},
		"a Go type":                              {kind: serverKind(true), running: server},
		"a Go type without a status subresource": {kind: serverKind(false), running: server},
		"Cluster API v1beta1": {
			kind:      contract.Unstructured(fake.MachineGVK().GroupKind().WithVersion("v1beta1"), contract.LayoutsOf(contract.V1Beta1).Machine),
			providers: true,
			lists: []contract.ConditionsField{
				contract.ConditionsAt("status", "v1beta2", "conditions"), contract.ConditionsAt("status", "conditions"),
			},
			spec: map[string]any{
				"clusterName": "demo", "infrastructureRef": reference(fake.InfraMachineGVK(contract.V1Beta2)),
				"bootstrap": map[string]any{"configRef": reference(fake.BootstrapConfigGVK(contract.V1Beta2))},
			},
			running: map[string]any{
				"spec.bootstrap.dataSecretName": "m1", "status.phase": "Running", "status.nodeRef.name": "m1", "status.nodeRef.kind": "Node",
				"status.nodeRef.apiVersion": "v1", "status.nodeRef.uid": "NODE", "status.bootstrapReady": true, "status.infrastructureReady": true,
				contract.NodeUIDAnnotation: nil,
			},
		},
	}
}

// nodeMetadata are labels and annotations that a user of Kubermatic or Gardener wants on the Node.
func nodeMetadata() map[string]any {
	return map[string]any{"labels": map[string]any{"example.com/rack": "4"}, "annotations": map[string]any{"example.com/owner": "blue"}}
}

func TestMachinesOfEveryShapeLiveAndDie(t *testing.T) {
	for name, s := range shapes() {
		t.Run(name, func(t *testing.T) {
			s.livesAndDies(t)
		})
	}
}

// The Node is there before its Machine, so that one write records both, and the status follows later.
func TestANodeIsReportedWhereALayoutKeepsItInTheMetadata(t *testing.T) {
	options := worldOptions{kind: shapes()["Gardener"].kind, noCRDs: true}
	options.machine.Steps = driverSteps(t, &options)
	known := options.before
	options.before = func(w *world) {
		known(w)
		w.Create(fake.Node("m1", "fake://m1"))
	}
	w := newWorld(t, options)
	m := testenv.Object(options.kind.GVK, "m1")
	m.Object["spec"] = map[string]any{"class": map[string]any{"kind": "MachineClass", "name": "small"}}
	w.Create(m)
	w.says(options.kind, m, contract.ConditionReady, contract.ReasonReady)
	w.recorded(machine.EventNodeMatched, 1)
}

// hold keeps a Machine whose deletion is completed, so that what it says in the end can be read.
const hold = "example.com/hold"

func (s shape) livesAndDies(t *testing.T) {
	options := worldOptions{kind: s.kind, store: fake.Options{Scheme: serverScheme(clientgoscheme.AddToScheme)}, noCRDs: !s.providers}
	if !s.providers {
		options.machine.Steps = driverSteps(t, &options)
	}
	w := newWorld(t, options)
	m := testenv.Object(s.kind.GVK, "m1")
	if s.spec != nil {
		m.Object["spec"] = s.spec
	}
	m.SetFinalizers([]string{hold})
	w.Create(m)
	if s.providers {
		w.Create(fake.BootstrapConfig(contract.V1Beta2, "m1"), fake.InfraMachine(contract.V1Beta2, "m1"))
	}
	w.says(s.kind, m, contract.ConditionReady, contract.ReasonReady)
	t.Logf("writes to get there: %v", w.writes())
	w.noneRejected()
	w.recorded(machine.EventNodeMatched, 1)
	w.isQuiet()
	node := w.node("m1")
	if s.forNode {
		require.Equal(t, "4 blue", node.Labels["example.com/rack"]+" "+node.Annotations["example.com/owner"])
	}
	require.Empty(t, cmp.Diff(s.expected(node), places(w.Get(m), s.running)), "where the state is")
	for _, list := range s.lists {
		for _, kind := range defaults() {
			_, found, err := list.Find(w.Get(m).Object, kind)
			require.True(t, found && err == nil, "%s: %v", kind, err)
		}
	}

	w.Delete(m)
	state := w.says(s.kind, m, contract.ConditionDeleting, contract.ReasonDeletionCompleted)
	w.noneRejected()
	d := state.Deletion(time.Now())
	require.True(t, !d.Stages[machine.StepDrain].Start.IsZero() && d.HasEnded(machine.StepDrain, node.UID), "%+v", d)
	require.Nil(t, w.node("m1"), "the Node is still there")
	last := w.Get(m)
	require.Equal(t, []string{hold}, last.GetFinalizers())
	last.SetFinalizers(nil)
	require.NoError(t, w.client.Update(t.Context(), last))
	w.Gone(m)
}

// driverSteps are the steps of an embedder whose Machines refer to no provider objects.
func driverSteps(t *testing.T, o *worldOptions) engine.Steps[*machine.Scope] {
	t.Helper()
	var w *world
	o.before = func(made *world) { w = made }
	ready := func(s *machine.Scope, kind string) {
		s.Assert(metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: contract.ReasonReady})
	}
	steps := machine.Steps()
	for name, run := range map[string]engine.StepFunc[*machine.Scope]{
		machine.StepBootstrap: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			s.SetDataSecretName(s.State.Key.Name + "-data")
			s.SetBootstrapReady()
			ready(s, contract.ConditionBootstrapConfigReady)
			return machine.Result{}, nil
		},
		machine.StepInfrastructure: func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
			id := "fake://" + s.State.Key.Name
			if s.State.ProviderID == "" { // once: a Node that was deleted does not come back
				if err := w.client.Create(ctx, fake.Node(s.State.Key.Name, id)); err != nil && !apierrors.IsAlreadyExists(err) {
					return machine.Result{}, err
				}
			}
			s.SetProviderID(id)
			s.SetAddresses([]contract.Address{{Type: "Hostname", Address: s.State.Key.Name}})
			s.SetInfrastructureReady()
			ready(s, contract.ConditionInfrastructureReady)
			return machine.Result{}, nil
		},
	} {
		steps = steps.Replace(name, machine.Step{Name: name, On: engine.InRunning, Run: run})
	}
	return steps
}

// says waits for a condition of a Machine of any shape, and returns its state.
func (w *world) says(kind contract.Kind, m client.Object, condition, reason string) contract.MachineState {
	w.t.Helper()
	var state contract.MachineState
	w.Eventually(condition+" to say "+reason, func() string {
		fresh, ok := kind.New().(client.Object)
		require.True(w.t, ok)
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKeyFromObject(m), fresh))
		require.NoError(w.t, kind.Adapter.Read(fresh, &state))
		text := "phase " + state.Phase
		for _, c := range state.Conditions {
			if c.Type == condition && c.Reason == reason {
				return ""
			}
			text += fmt.Sprintf("\n  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
		return text
	})
	return state
}

func (w *world) noneRejected() {
	w.t.Helper()
	deleted := map[string]bool{}
	for _, r := range w.store.Requests() {
		object := fmt.Sprint(r.GVK.GroupKind(), r.Namespace, "/", r.Name)
		if r.Verb == "delete" && r.UserAgent == userAgent {
			if r.Code == 404 && deleted[object] {
				continue // asked again before the cache had seen the first answer; it went meanwhile
			}
			deleted[object] = deleted[object] || r.Code < 300
		}
		require.False(w.t, r.UserAgent == userAgent && r.IsWrite() && r.Code >= 300 && r.GVK.Kind != "Event", "a write was rejected: %+v", r)
	}
}

func (s shape) expected(node *corev1.Node) map[string]any {
	want := maps.Clone(s.running)
	for place, value := range want {
		if value == "NODE" {
			want[place] = string(node.UID)
		}
	}
	return want
}

// places returns what is at the places that want names.
func places(m *unstructured.Unstructured, want map[string]any) map[string]any {
	got := map[string]any{}
	for place := range want {
		path := strings.Split(place, ".")
		if strings.HasPrefix(place, "machinist.dev/") {
			path = []string{"metadata", "annotations", place}
		}
		got[place], _, _ = unstructured.NestedFieldNoCopy(m.Object, path...)
	}
	return got
}

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
			kind := shapes()["Kubermatic, without a status subresource"].kind
			kind.StatusSubresource = c.subresource
			cloud := fake.NewDriver(fake.DriverOptions{Boot: c.boot, Vanish: c.boot})
			steps := machine.WithDriver(machine.Steps().Remove(machine.StepBootstrap), machine.DriverOptions{
				Calls: provider.Of(cloud, slowly(c.slow...)), Poll: 100 * time.Millisecond,
			}).Replace(machine.StepPhase, machine.PhaseStep(phases.Kubermatic(), machine.KubermaticFacts))
			w := newWorld(t, worldOptions{kind: kind, noCRDs: true,
				machine: machine.Options{Options: engine.Options{StatusDelay: engine.DefaultStatusDelay}, Steps: steps}})
			m := testenv.Object(kind.GVK, "m1")
			m.Object["spec"] = map[string]any{"providerSpec": map[string]any{"value": map[string]any{"size": "small"}}}
			m.SetFinalizers(append(c.finalizers, hold))
			stored := w.watchesPhases(m)
			w.Create(m)
			w.reaches(m, string(phases.Joining))
			want := []string{"Validating", "Provisioning", "Joining", "Deleting", "Deleted"}
			if !c.nodeless {
				want = slices.Insert(want, 3, "Running")
				id, _, _ := unstructured.NestedString(w.Get(m).Object, "spec", "providerID")
				w.Create(fake.Node("m1", id))
				w.reaches(m, string(phases.Running))
			}
			w.Delete(m)
			w.reaches(m, string(phases.Deleted))
			w.Change(m, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
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
