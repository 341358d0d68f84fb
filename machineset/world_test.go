package machineset_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

const userAgent = "machinist-under-test"

func kindsOf(t *testing.T) contract.Kinds {
	t.Helper()
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	return kinds
}

func templateOf(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	return gvk.GroupVersion().WithKind(gvk.Kind + contract.TemplateSuffix)
}

func infraGVK() schema.GroupVersionKind     { return fake.InfraMachineGVK(contract.V1Beta2) }
func bootstrapGVK() schema.GroupVersionKind { return fake.BootstrapConfigGVK(contract.V1Beta2) }

// world is a store with reconcilers of Machines, and templates for a set.
type world struct {
	*testenv.Env

	t      *testing.T
	store  *fake.Store
	client client.WithWatch
	kinds  contract.Kinds
	lives  *fake.Machines
}

func newWorld(t *testing.T, o fake.Options) *world {
	t.Helper()
	return newWorldWith(t, o, fake.AllLoops())
}

func newWorldWith(t *testing.T, o fake.Options, loops fake.Loops) *world {
	t.Helper()
	kinds := kindsOf(t)
	o.Kinds = append(o.Kinds, fake.ServedKind{GVK: kinds.Set.GVK, Status: true}, fake.ServedKind{GVK: kinds.Machine.GVK, Status: true},
		fake.ServedKind{GVK: fake.ClusterGVK(), Status: true})
	env := testenv.Start(t, o, loops, func(e *testenv.Env) {
		for _, gvk := range []schema.GroupVersionKind{infraGVK(), bootstrapGVK(), templateOf(infraGVK()), templateOf(bootstrapGVK())} {
			e.Create(fake.CRD(gvk, contract.V1Beta2))
		}
	})
	w := &world{Env: env, t: t, store: env.Store, client: env.Client, kinds: kinds}
	w.create(w.template(infraGVK()), w.template(bootstrapGVK()))
	return w
}

// live starts the reconcilers of Machines.
func (w *world) live() *world {
	w.t.Helper()
	mgr := w.manager("lives")
	w.lives = fake.NewMachines(mgr.GetClient(), w.kinds.Machine, infraGVK(), bootstrapGVK())
	require.NoError(w.t, w.lives.SetupWithManager(mgr))
	w.start(mgr)
	return w
}

func (w *world) manager(agent string) ctrl.Manager {
	w.t.Helper()
	return w.Manager(agent, ctrl.Options{})
}

func (w *world) start(mgr ctrl.Manager) (stop func()) { w.t.Helper(); return w.Run(mgr) }

func (w *world) create(objects ...client.Object) { w.t.Helper(); w.Create(objects...) }

func (w *world) get(obj *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	return w.Get(obj)
}

func (w *world) change(obj *unstructured.Unstructured, do func(*unstructured.Unstructured)) {
	w.t.Helper()
	w.Change(obj, do)
}

func (w *world) list(gvk schema.GroupVersionKind) []unstructured.Unstructured {
	w.t.Helper()
	return w.List(gvk)
}

func (w *world) eventually(what string, check func() string) { w.t.Helper(); w.Eventually(what, check) }

func object(gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	return testenv.Object(gvk, name)
}

// run starts the reconciler under test.
func (w *world) run(options machineset.Options) (stop func()) {
	w.t.Helper()
	return w.runWith(ctrl.Options{}, options)
}

// runWith starts it in a manager of these options.
func (w *world) runWith(manager ctrl.Options, options machineset.Options) (stop func()) {
	w.t.Helper()
	mgr := w.Manager(userAgent, manager)
	if options.StatusDelay == 0 {
		options.StatusDelay = 50 * time.Millisecond
	}
	_, err := machineset.SetupWithManager(w.t.Context(), mgr, w.kinds, options)
	require.NoError(w.t, err)
	return w.start(mgr)
}

func (w *world) template(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := object(templateOf(gvk), "workers")
	u.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"size": "large"}}}
	return u
}

// set returns a set that has templates, and a selector of its own.
func (w *world) set(name string, replicas int64, options ...fake.Option) *unstructured.Unstructured {
	u := object(w.kinds.Set.GVK, name)
	ref := func(gvk schema.GroupVersionKind) map[string]any {
		return map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": "workers"}
	}
	u.Object["spec"] = map[string]any{
		"clusterName": "demo", "replicas": replicas,
		"selector": map[string]any{"matchLabels": map[string]any{"pool": name}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"pool": name, "tier": "a"}, "annotations": map[string]any{"note": "x"}},
			"spec": map[string]any{
				"clusterName": "demo", "version": "v1.36.3",
				"bootstrap":         map[string]any{"configRef": ref(templateOf(bootstrapGVK()))},
				"infrastructureRef": ref(templateOf(infraGVK())),
			},
		},
	}
	for _, option := range options {
		option(u)
	}
	return u
}

func (w *world) scale(set *unstructured.Unstructured, replicas int64) {
	w.t.Helper()
	w.change(set, fake.WithField(replicas, "spec", "replicas"))
}

func (w *world) machines() []unstructured.Unstructured {
	w.t.Helper()
	return w.list(w.kinds.Machine.GVK)
}

// has waits until a set has so many Machines, all of them in its status, and nothing else is left of others.
func (w *world) has(set *unstructured.Unstructured, n int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("have %d Machines", n), func() string {
		machines := w.machines()
		going := 0
		for i := range machines {
			if machines[i].GetDeletionTimestamp() != nil {
				going++
			}
		}
		if len(machines) != n || going > 0 {
			return fmt.Sprintf("there are %d, %d of them in deletion; %s", len(machines), going, w.describe(set))
		}
		for _, gvk := range []schema.GroupVersionKind{infraGVK(), bootstrapGVK()} {
			if parts := len(w.partsOfMachines(gvk)); parts != n {
				return fmt.Sprintf("there are %d of %s", parts, gvk.Kind)
			}
		}
		if fresh := w.get(set); fresh != nil {
			if got, _, _ := unstructured.NestedInt64(fresh.Object, "status", "replicas"); got != int64(n) {
				return "its status says otherwise: " + w.describe(set)
			}
		}
		return ""
	})
}

// partsOfMachines are the objects of a kind that have the name of a Machine, or that one controls: what a set has made for no Machine stays.
func (w *world) partsOfMachines(gvk schema.GroupVersionKind) []unstructured.Unstructured {
	w.t.Helper()
	machines := w.machines()
	return slices.DeleteFunc(w.list(gvk), func(part unstructured.Unstructured) bool {
		named := slices.ContainsFunc(machines, func(m unstructured.Unstructured) bool { return m.GetName() == part.GetName() })
		controller := metav1.GetControllerOf(&part)
		return !named && (controller == nil || controller.Kind != w.kinds.Machine.GVK.Kind)
	})
}

func (w *world) describe(set *unstructured.Unstructured) string {
	w.t.Helper()
	fresh := w.get(set)
	if fresh == nil {
		return "the set is gone"
	}
	text := fmt.Sprintf("ledger %s, status %v", fresh.GetAnnotations()[scale.LedgerAnnotation], fresh.Object["status"])
	return text
}

func (w *world) condition(set *unstructured.Unstructured, kind string) metav1.Condition {
	w.t.Helper()
	return testenv.Condition(w.get(set), kind)
}

// conditionSays waits for the message of a condition to contain a text.
func (w *world) conditionSays(set *unstructured.Unstructured, kind, text string) metav1.Condition {
	w.t.Helper()
	return w.Says(set, kind, "", text)
}

// oneForEachSlot checks that no name was ever given to two machines: the provider is asked for a machine by an infrastructure object.
func (w *world) oneForEachSlot() {
	w.t.Helper()
	made := map[string]int{}
	for _, r := range w.store.Requests() {
		if r.Verb == "create" && r.GVK.Kind == infraGVK().Kind && r.Code == 201 {
			made[r.Name]++
		}
	}
	require.NotEmpty(w.t, made)
	for name, n := range made {
		if n > 1 {
			w.t.Errorf("%d infrastructure objects were made under the name %s", n, name)
		}
	}
}

func fake0() fake.Options { return fake.Options{} }
