package children_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

type (
	scope = children.Scope[contract.MachineDeploymentState, contract.MachineDeploymentUpdate,
		contract.MachineSetState, contract.MachineSetUpdate]
	memory = children.Memory
	// owner is a deployment as the owner of its sets.
	owner = *engine.Scope[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]
)

func capi(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: kind}
}

// world is a store with one deployment, whose sets a test keeps pass by pass.
type world struct {
	*testenv.Env

	t          *testing.T
	deployment *unstructured.Unstructured
	frame      *engine.Frame[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]
	sets       *children.Frame[contract.MachineDeploymentState, contract.MachineDeploymentUpdate,
		contract.MachineSetState, contract.MachineSetUpdate]
	memory   *memory
	recorder *events.FakeRecorder
}

// newWorld returns a world; ports changes what the passes use.
func newWorld(t *testing.T, ports func(*world, *engine.Ports)) *world {
	t.Helper()
	deployment := contract.Unstructured(capi("MachineDeployment"), contract.LayoutsOf(contract.V1Beta2).MachineDeployment)
	set := contract.Unstructured(capi("MachineSet"), contract.LayoutsOf(contract.V1Beta2).MachineSet)
	kinds := []fake.ServedKind{{GVK: deployment.GVK, Status: true}, {GVK: set.GVK, Status: true}}
	env := testenv.Over(t, fake.NewStore(fake.Options{Kinds: kinds}))
	w := &world{Env: env, t: t, memory: children.NewMemory(), recorder: events.NewFakeRecorder(100)}
	mgr := env.Manager("children", ctrl.Options{})
	use := engine.PortsFromManager(mgr)
	if ports != nil {
		ports(w, &use)
	}
	options := engine.WithDefaults(engine.Options{Recorder: w.recorder}, "MachineDeployment")
	var err error
	w.frame, err = engine.NewFrame("reconciler", deployment, "example.com/deployment", use, options)
	require.NoError(t, err)
	w.sets = children.NewFrame(w.frame, set, selectorOf, "MachineSet", scale.DeleteAnnotation)
	require.NoError(t, w.sets.Index(t.Context()))
	env.Run(mgr)
	require.True(t, mgr.GetCache().WaitForCacheSync(t.Context()))
	w.deployment = testenv.Object(deployment.GVK, "workers")
	w.deployment.Object["spec"] = map[string]any{
		"clusterName": "demo", "selector": map[string]any{"matchLabels": map[string]any{"pool": "workers"}},
	}
	w.Create(w.deployment)
	return w
}

func selectorOf(d *contract.MachineDeploymentState) (labels.Selector, error) {
	return children.Selector(d.Selector, contract.CommonOf(d), contract.DeploymentNameLabel)
}

// set returns a set that the deployment selects, with a controller of this UID, if any.
func (w *world) set(name, controller string) *unstructured.Unstructured {
	u := testenv.Object(capi("MachineSet"), name)
	u.SetLabels(map[string]string{"pool": "workers", contract.ClusterNameLabel: "demo"})
	u.Object["spec"] = map[string]any{"clusterName": "demo"}
	if controller != "" {
		u.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{ //nolint:forcetypeassert // made above
			"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "workers", "uid": controller, "controller": true,
		}}
	}
	return u
}

// stored returns the sets of the API server, by name.
func (w *world) stored() map[string]*unstructured.Unstructured {
	w.t.Helper()
	list := &unstructured.UnstructuredList{} // of all namespaces
	list.SetGroupVersionKind(capi("MachineSetList"))
	require.NoError(w.t, w.Client.List(w.t.Context(), list))
	all := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		all[list.Items[i].GetName()] = &list.Items[i]
	}
	return all
}

// begin observes the sets in a pass over the deployment as the API server has it.
func (w *world) begin() (*scope, owner, error) {
	w.t.Helper()
	require.NoError(w.t, w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(w.deployment), w.deployment))
	o, s := &engine.Scope[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]{}, &scope{}
	require.NoError(w.t, engine.Begin(o, w.frame, w.deployment.DeepCopy()))
	w.sets.Begin(s, o, w.memory)
	return s, o, s.Observe(w.t.Context())
}

// pass repeats passes until one has observed as many sets as the API server has that the deployment controls.
func (w *world) pass() (*scope, owner) {
	w.t.Helper()
	var s *scope
	var o owner
	w.Until("a pass with all sets", func() bool {
		var err error
		if s, o, err = w.begin(); err != nil || s.Waiting {
			return false
		}
		own := 0
		for _, u := range w.stored() {
			if metav1.IsControlledBy(u, w.deployment) {
				own++
			}
		}
		return len(s.Own) == own
	})
	return s, o
}

// grow reserves n slots, or resumes those that are reserved, and creates their sets.
func (w *world) grow(s *scope, n int) error {
	w.t.Helper()
	naming, err := scale.NewNaming(w.deployment.GetUID(), "workers", "demo", "")
	require.NoError(w.t, err)
	err = s.Grow(w.t.Context(), s.Settle(), n, naming, w.make)
	require.Empty(w.t, s.Holds)
	return err
}

// asks returns how often the API server is asked for all sets in a pass.
func (w *world) asks(does func(*scope) error) int {
	w.t.Helper()
	asked := func(r fake.Request) bool { return r.Verb == "list" && r.GVK.Kind == "MachineSet" }
	s, _ := w.pass()
	before := w.Store.CountRequests(asked)
	require.NoError(w.t, does(s))
	return w.Store.CountRequests(asked) - before
}

func (w *world) make(_ context.Context, e scale.Entry) (client.Object, bool, error) {
	u := w.set(e.Name, string(w.deployment.GetUID()))
	u.SetAnnotations(scale.Stamp{Set: w.deployment.GetUID(), Slot: e.Slot}.Annotations())
	return u, true, nil
}

// failNext has the next creation of a set fail.
func (w *world) failNext(why string) {
	w.Store.FailNext(func(r fake.Request) bool { return r.Verb == "create" && r.GVK.Kind == "MachineSet" }, errors.New(why))
}

// owns creates sets that the deployment controls.
func (w *world) owns(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.Create(w.set(name, string(w.deployment.GetUID())))
	}
}

// patches patches an object with a merge patch, as another client does.
func (w *world) patches(obj client.Object, body string) {
	w.t.Helper()
	require.NoError(w.t, w.Client.Patch(w.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body))))
}
