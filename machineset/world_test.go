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

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/external"
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

	t     *testing.T
	kinds contract.Kinds
	lives *fake.Machines
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
	w := &world{Env: env, t: t, kinds: kinds}
	w.Create(w.template(infraGVK()), w.template(bootstrapGVK()))
	return w
}

// newSet returns a world whose reconcilers run, with a set that has all its Machines.
func newSet(t *testing.T, replicas int64, options ...fake.Option) (*world, *unstructured.Unstructured) {
	t.Helper()
	w := newWorld(t, fake.Options{}).live()
	w.run(machineset.Options{})
	set := w.set("workers", replicas, options...)
	w.Create(set)
	w.has(set, int(replicas))
	return w, set
}

// until polls until a condition is met, and describes the sets when it never is.
func (w *world) until(what string, met func() bool) {
	w.t.Helper()
	come := false
	defer func() {
		if come {
			return
		}
		for _, set := range w.List(w.kinds.Set.GVK) {
			w.t.Logf("%s; %d Machines", w.describe(&set), len(w.machines()))
		}
	}()
	w.Until(what, met)
	come = true
}

// live starts the reconcilers of Machines.
func (w *world) live() *world {
	w.t.Helper()
	mgr := w.Manager("lives", ctrl.Options{})
	w.lives = fake.NewMachines(mgr.GetClient(), w.kinds.Machine, infraGVK(), bootstrapGVK())
	require.NoError(w.t, w.lives.SetupWithManager(mgr))
	w.Run(mgr)
	return w
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
	return w.Run(mgr)
}

// runWithClusters starts the reconciler under test with Clusters that it follows.
func (w *world) runWithClusters() ctrl.Manager {
	w.t.Helper()
	mgr := w.Manager(userAgent, ctrl.Options{})
	clusters, err := external.ClustersFromManager(mgr, external.ClusterOptions{})
	require.NoError(w.t, err)
	ports := pass.PortsFromManager(mgr)
	ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	r, err := machineset.New(w.kinds, ports, machineset.Options{Options: pass.Options{StatusDelay: -1}})
	require.NoError(w.t, err)
	require.NoError(w.t, r.AddToManager(w.t.Context(), mgr))
	w.Run(mgr)
	return mgr
}

// stray creates a Machine of a pool that nobody owns.
func (w *world) stray(name, pool string) *unstructured.Unstructured {
	w.t.Helper()
	u := testenv.Object(w.kinds.Machine.GVK, name)
	u.SetLabels(map[string]string{"pool": pool, contract.ClusterNameLabel: "demo"})
	u.Object["spec"] = map[string]any{"clusterName": "demo"}
	w.Create(u)
	return u
}

func (w *world) template(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := testenv.Object(templateOf(gvk), "workers")
	u.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"size": "large"}}}
	return u
}

// set returns a set that has templates, and a selector of its own.
func (w *world) set(name string, replicas int64, options ...fake.Option) *unstructured.Unstructured {
	u := testenv.Object(w.kinds.Set.GVK, name)
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
	w.Change(set, fake.WithField(replicas, "spec", "replicas"))
}

func (w *world) machines() []unstructured.Unstructured {
	w.t.Helper()
	return w.List(w.kinds.Machine.GVK)
}

// has waits until a set has so many Machines, all of them in its status, and nothing else is left of others.
func (w *world) has(set *unstructured.Unstructured, n int) {
	w.t.Helper()
	w.Eventually(fmt.Sprintf("have %d Machines", n), func() string {
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
		if fresh := w.Get(set); fresh != nil {
			if testenv.Number(fresh, "status", "replicas") != int64(n) {
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
	return slices.DeleteFunc(w.List(gvk), func(part unstructured.Unstructured) bool {
		named := slices.ContainsFunc(machines, func(m unstructured.Unstructured) bool { return m.GetName() == part.GetName() })
		controller := metav1.GetControllerOf(&part)
		return !named && (controller == nil || controller.Kind != w.kinds.Machine.GVK.Kind)
	})
}

func (w *world) describe(set *unstructured.Unstructured) string {
	w.t.Helper()
	fresh := w.Get(set)
	if fresh == nil {
		return "the set is gone"
	}
	text := fmt.Sprintf("ledger %s, status %v", fresh.GetAnnotations()[scale.LedgerAnnotation], fresh.Object["status"])
	return text
}

func (w *world) condition(set *unstructured.Unstructured, kind string) metav1.Condition {
	w.t.Helper()
	return testenv.Condition(w.Get(set), kind)
}

// conditionSays waits for the message of a condition to contain a text.
func (w *world) conditionSays(set *unstructured.Unstructured, kind, text string) metav1.Condition {
	w.t.Helper()
	return w.AwaitCondition(set, kind, "", text)
}

// oneForEachSlot checks that no name was ever given to two machines: the provider is asked for a machine by an infrastructure object.
func (w *world) oneForEachSlot() {
	w.t.Helper()
	made := map[string]int{}
	for _, r := range w.Store.Requests() {
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

func annotated(key, value string) fake.Option {
	return fake.WithAnnotations(map[string]string{key: value})
}
