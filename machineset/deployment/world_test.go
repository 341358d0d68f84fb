package deployment_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// world is a store with the reconcilers of deployments and sets, and a stand-in for that of Machines.
type world struct {
	*testenv.Env

	t        *testing.T
	kinds    contract.Kinds
	machines *fake.Machines
	cached   client.Reader // what the reconciler of sets sees
	seen     client.Reader // what the reconciler under test sees
	stop     func()        // stops the reconciler under test that was started last
	metrics  []*pass.Metrics
	// admit changes or rejects what the reconciler under test creates, as a webhook does; nil admits everything.
	admit func(client.Object) error
	// patches rejects patches by what they write; nil admits everything.
	patches func(obj client.Object, body string) error
	// deletes makes the deletions of the reconciler under test; nil makes them as they are.
	deletes func(obj client.Object, pass func() error) error
	// most and least are the largest number of Machines and the smallest number of available ones that were seen.
	mu          sync.Mutex
	most, least int
}

func infraTemplate() schema.GroupVersionKind {
	gvk := fake.InfraMachineGVK(contract.V1Beta2)
	return gvk.GroupVersion().WithKind(gvk.Kind + contract.TemplateSuffix)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, clusterAPI())
}

// newWorldWithLimits is a world whose deployments have the limits that v1beta2 has no field for, where v1beta1 has them.
func newWorldWithLimits(t *testing.T) *world {
	t.Helper()
	kinds := clusterAPI()
	layout := *contract.LayoutsOf(contract.V1Beta2).MachineDeployment
	layout.RevisionHistoryLimit = contract.LayoutsOf(contract.V1Beta1).MachineDeployment.RevisionHistoryLimit
	layout.ProgressDeadline = contract.LayoutsOf(contract.V1Beta1).MachineDeployment.ProgressDeadline
	kinds.Deployment.Adapter = contract.Unstructured(kinds.Deployment.GVK, &layout).Adapter
	return newWorldOf(t, kinds)
}

func historyLimit(n int64) fake.Option { return fake.WithField(n, "spec", "revisionHistoryLimit") }

func progressDeadline(seconds int64) fake.Option {
	return fake.WithField(seconds, "spec", "progressDeadlineSeconds")
}

func newWorldOf(t *testing.T, kinds contract.Kinds) *world {
	t.Helper()
	return newWorldWith(t, kinds, fake.Options{}, fake.AllLoops())
}

func newWorldWith(t *testing.T, kinds contract.Kinds, options fake.Options, loops fake.Loops) *world {
	t.Helper()
	options.Kinds = []fake.ServedKind{
		{GVK: kinds.Deployment.GVK, Status: true}, {GVK: kinds.Set.GVK, Status: true},
		{GVK: kinds.Machine.GVK, Status: kinds.Machine.StatusSubresource},
		{GVK: fake.ClusterGVK(), Status: true},
	}
	env := testenv.Start(t, options, loops, func(e *testenv.Env) {
		for _, gvk := range []schema.GroupVersionKind{fake.InfraMachineGVK(contract.V1Beta2), infraTemplate()} {
			e.Create(fake.CRD(gvk, contract.V1Beta2))
		}
		for _, name := range []string{"blue", "green"} {
			u := testenv.Object(infraTemplate(), name)
			u.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"image": name}}}
			e.Create(u)
		}
	})
	return &world{Env: env, t: t, kinds: kinds}
}

func (w *world) manager(agent string) ctrl.Manager {
	w.t.Helper()
	options := ctrl.Options{}
	if agent == "deployments" {
		options.NewClient = func(cfg *rest.Config, o client.Options) (client.Client, error) {
			c, err := client.New(cfg, o)
			return admitted{c, w}, err
		}
	}
	return w.Manager(agent, options)
}

// admitted is a client in front of which a webhook stands.
type admitted struct {
	client.Client

	world *world
}

func (a admitted) Create(ctx context.Context, obj client.Object, options ...client.CreateOption) error {
	if a.world.admit != nil {
		if err := a.world.admit(obj); err != nil {
			return err
		}
	}
	return a.Client.Create(ctx, obj, options...)
}

func (a admitted) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	body, err := patch.Data(obj)
	if err == nil && a.world.patches != nil {
		err = a.world.patches(obj, string(body))
	}
	if err != nil {
		return err
	}
	return a.Client.Patch(ctx, obj, patch, options...)
}

func (a admitted) Delete(ctx context.Context, obj client.Object, options ...client.DeleteOption) error {
	pass := func() error { return a.Client.Delete(ctx, obj, options...) }
	if a.world.deletes == nil {
		return pass()
	}
	return a.world.deletes(obj, pass)
}

// options are those of a reconciler, with metrics of its own.
func (w *world) options(kind string) pass.Options {
	metrics := pass.NewMetrics(pass.MetricsOptions{Kind: kind})
	w.metrics = append(w.metrics, metrics)
	return pass.Options{StatusDelay: 20 * time.Millisecond, Metrics: metrics}
}

// live starts the reconciler of sets and the stand-in for that of Machines.
func (w *world) live() *world {
	w.t.Helper()
	mgr := w.manager("others")
	w.machines = fake.NewMachines(mgr.GetClient(), w.kinds.Machine, fake.InfraMachineGVK(contract.V1Beta2))
	require.NoError(w.t, w.machines.SetupWithManager(mgr))
	_, err := machineset.SetupWithManager(w.t.Context(), mgr, w.kinds, machineset.Options{Options: w.options("MachineSet")})
	require.NoError(w.t, err)
	w.cached = mgr.GetCache()
	w.Run(mgr)
	return w
}

// rolledOut returns a world whose reconcilers run, with a deployment whose Machines are available.
func rolledOut(t *testing.T, replicas int64, options ...fake.Option) (*world, *unstructured.Unstructured) {
	t.Helper()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(replicas, options...)
	w.rolled(d, "blue", int(replicas))
	return w, d
}

// rollTo changes the template of a deployment, and waits until it is rolled out.
func (w *world) rollTo(d *unstructured.Unstructured, image string, n int) {
	w.t.Helper()
	w.Change(d, template(image))
	w.rolled(d, image, n)
}

// until polls until a condition is met, and describes the deployments when it never is.
func (w *world) until(what string, met func() bool) {
	w.t.Helper()
	come := false
	defer func() {
		if come {
			return
		}
		for _, d := range w.List(w.kinds.Deployment.GVK) {
			w.t.Log(w.images(), w.describeSets(), testenv.Describe(&d))
		}
	}()
	w.Until(what, met)
	come = true
}

// run starts the reconciler under test, and stop stops it.
func (w *world) run() (stop func()) {
	w.t.Helper()
	mgr := w.manager("deployments")
	_, err := deployment.SetupWithManager(w.t.Context(), mgr, w.kinds, deployment.Options{Options: w.options("MachineDeployment")})
	require.NoError(w.t, err)
	w.seen = mgr.GetCache()
	w.stop = w.Run(mgr)
	return w.stop
}

// deployment creates a deployment with the template blue.
func (w *world) deployment(replicas int64, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	u := testenv.Object(w.kinds.Deployment.GVK, "workers")
	gvk := infraTemplate()
	u.Object["spec"] = map[string]any{
		"clusterName": "demo", "replicas": replicas, "selector": map[string]any{"matchLabels": map[string]any{"pool": "workers"}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"pool": "workers"}},
			"spec": map[string]any{
				"clusterName": "demo", "version": "v1.36.3",
				"bootstrap":         map[string]any{"dataSecretName": "data"},
				"infrastructureRef": map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": "blue"},
			},
		},
	}
	for _, option := range options {
		option(u)
	}
	w.Create(u)
	return u
}

func template(name string) fake.Option {
	return fake.WithField(name, "spec", "template", "spec", "infrastructureRef", "name")
}

func imageOf(set *unstructured.Unstructured) string {
	return testenv.Text(set, "spec", "template", "spec", "infrastructureRef", "name")
}

func (w *world) setsNow() []unstructured.Unstructured { w.t.Helper(); return w.List(w.kinds.Set.GVK) }
func (w *world) machinesNow() []unstructured.Unstructured {
	w.t.Helper()
	return w.List(w.kinds.Machine.GVK)
}

// image is the template that a Machine was made from, by its infrastructure.
func (w *world) images() map[string]int {
	w.t.Helper()
	all := map[string]int{}
	for _, u := range w.List(fake.InfraMachineGVK(contract.V1Beta2)) {
		all[testenv.Text(&u, "spec", "image")]++
	}
	return all
}

// has waits until there are so many Machines of each template.
func (w *world) has(want map[string]int) {
	w.t.Helper()
	w.Eventually(fmt.Sprintf("have %v", want), func() string {
		if got := w.images(); !maps.Equal(got, want) {
			return fmt.Sprint(got, w.describeSets())
		}
		return ""
	})
}

// hashOf is the label of the Machines of a template.
func (w *world) hashOf(image string) string {
	w.t.Helper()
	for _, s := range w.setsNow() {
		if imageOf(&s) == image {
			return s.GetLabels()[contract.TemplateHashLabel]
		}
	}
	return ""
}

// rolled waits until a deployment has so many Machines of one template, all of them available, and no others.
func (w *world) rolled(d *unstructured.Unstructured, image string, n int) {
	w.t.Helper()
	w.Eventually(fmt.Sprintf("have %d of %s", n, image), func() string {
		images := w.images()
		status, _, _ := unstructured.NestedMap(w.Get(d).Object, "status")
		got := fmt.Sprint(images, status["replicas"], status["availableReplicas"], status["upToDateReplicas"],
			w.condition(d, "RollingOut").Status)
		if want := fmt.Sprint(map[string]int{image: n}, n, n, n, "False"); n > 0 && got != want {
			return fmt.Sprintf("%s, want %s; sets %v; %s", got, want, w.describeSets(), w.condition(d, "RollingOut").Message)
		}
		if n == 0 && len(images) > 0 {
			return got
		}
		return ""
	})
}

func (w *world) describeSets() (all []string) {
	for _, s := range w.setsNow() {
		spec := testenv.Number(&s, "spec", "replicas")
		status := testenv.Number(&s, "status", "replicas")
		all = append(all, fmt.Sprintf("%s: %d of %d %s", s.GetName(), status, spec, s.GetAnnotations()[contract.RevisionAnnotation]))
	}
	return all
}

func (w *world) condition(d *unstructured.Unstructured, kind string) metav1.Condition {
	w.t.Helper()
	return testenv.Condition(w.Get(d), kind)
}

// watch counts Machines until it is stopped: how many there are at most, and how many are available at least. stop waits until all that
// was written before it has been counted.
func (w *world) watch() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	list := &unstructured.UnstructuredList{}
	gvk := w.kinds.Machine.GVK
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	events, err := w.Client.Watch(ctx, list, client.InNamespace("default"))
	require.NoError(w.t, err)
	seen := map[string]*unstructured.Unstructured{}
	for _, m := range w.List(gvk) {
		seen[m.GetName()] = &m
	}
	w.most, w.least = len(seen), len(seen)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events.ResultChan() {
			if m, ok := e.Object.(*unstructured.Unstructured); ok {
				w.count(seen, m, e.Type == "DELETED")
			}
		}
	}()
	return func() {
		w.t.Helper()
		w.Eventually("the count to have seen all", func() string {
			now, counted := map[string]string{}, map[string]string{}
			for _, m := range w.List(gvk) {
				now[m.GetName()] = m.GetResourceVersion()
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for name, m := range seen {
				counted[name] = m.GetResourceVersion()
			}
			return cmp.Diff(now, counted)
		})
		events.Stop()
		cancel()
		<-done
	}
}

// count adds a Machine as it is now to those that were seen before.
func (w *world) count(seen map[string]*unstructured.Unstructured, m *unstructured.Unstructured, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seen[m.GetName()] = m; gone {
		delete(seen, m.GetName())
	}
	n := 0
	for _, one := range seen {
		if available(one) {
			n++
		}
	}
	w.most, w.least = max(w.most, len(seen)), min(w.least, n)
}

func available(m *unstructured.Unstructured) bool {
	c, found, _ := contract.ConditionsAt("status", "conditions").Find(m.Object, "Available")
	return found && c.Status == metav1.ConditionTrue && m.GetDeletionTimestamp() == nil
}
