package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/published"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// rightsWorld is a manager at work with the rights that it prints.
type rightsWorld struct {
	t     *testing.T
	o     settings
	store *fake.Store
	user  *used
	stop  func()
}

func newRightsWorld(t *testing.T, flags ...string) *rightsWorld {
	t.Helper()
	w := &rightsWorld{t: t, store: fake.NewStore(fake.Options{})}
	w.o = given(t, append(flags, "--status-delay=0", "--driver-qps=1000", "--leader-election-namespace=default")...)
	rules := slices.Concat(clusterRole(w.o).Rules, leaderRules(w.o))
	if role := credentialsRole(w.o); role != nil {
		rules = append(rules, role.Rules...)
		createToken(t, w.store, role.Namespace, role.Rules[0].ResourceNames[0], cloudToken)
	}
	granted := grantsOf(rules)
	w.user = &used{granted: granted, used: map[grant]bool{}, denied: map[string]bool{}}
	w.serve()
	cfg := w.store.RESTConfig()
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { w.user.RoundTripper = rt; return w.user })
	ctx, cancel := context.WithCancel(context.Background())
	if w.o.Kinds.InstallCRDs {
		require.NoError(t, installCRDs(ctx, cfg, ownCRDs(w.o)))
	}
	mgr, err := newManager(ctx, cfg, w.o, logr.Discard())
	require.NoError(t, err)
	running := []ctrl.Manager{mgr}
	if w.o.refersTo(fake.BootstrapConfigGVK(contract.V1Beta2).Group) {
		providers, err := w.store.NewManager(ctrl.Options{Logger: logr.Discard()})
		require.NoError(t, err)
		of := fake.ProviderOptions{Machine: w.o.Kinds.Group.Machine().GVK}
		infrastructure, bootstrap := fake.Infrastructure{ProviderOptions: of}, fake.Bootstrap{ProviderOptions: of}
		require.NoError(t, infrastructure.SetupWithManager(providers))
		require.NoError(t, bootstrap.SetupWithManager(providers))
		if w.o.Kinds.MachinePools {
			pools := fake.PoolInfrastructure{Owner: w.o.Kinds.GroupOfPools().MachinePool().GVK, Machines: true}
			require.NoError(t, pools.SetupWithManager(providers))
		}
		running = append(running, providers)
	}
	settled := w.store.Start(ctx, fake.AllLoops())
	done := make(chan error, len(running))
	for _, m := range running {
		go func() { done <- m.Start(ctx) }()
	}
	w.stop = func() {
		cancel()
		for range running {
			require.NoError(t, <-done)
		}
		settled()
	}
	return w
}

func leaderRules(o settings) []rbacv1.PolicyRule {
	if !o.LeaderElection.Enabled {
		return nil
	}
	return leaderRole(o).Rules
}

// serve installs the kinds that others bring.
func (w *rightsWorld) serve() {
	w.t.Helper()
	crds := []client.Object{
		fake.CRD(controlPlane().GroupVersionKind(), contract.V1Beta2), fake.CRD(api.ClusterAPI.GroupVersion().WithKind("MachineDrainRule")),
	}
	group := w.o.Kinds.Group
	switch {
	case group.IsClusterAPI():
		for _, kind := range []string{"Cluster", "Machine", "MachineSet", "MachineDeployment", "MachinePool", "MachineHealthCheck"} {
			crds = append(crds, fake.CRD(group.GroupVersion().WithKind(kind)))
		}
	case group.IsForeign():
		s := foreignSystems()[group]
		theirs, err := published.CRDs(w.t.Context(), s.module, s.crds)
		require.NoError(w.t, err)
		for _, kind := range []string{"Machine", "MachineSet", "MachineDeployment", "MachineClass"} {
			if theirs[kind] != nil {
				crds = append(crds, theirs[kind])
			}
		}
	}
	crds = append(crds, fake.CRD(fake.InfraMachinePoolGVK(contract.V1Beta2), contract.V1Beta2))
	for _, gvk := range []schema.GroupVersionKind{fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2)} {
		template := gvk
		template.Kind += contract.TemplateSuffix
		crds = append(crds, fake.CRD(gvk, contract.V1Beta2), fake.CRD(template, contract.V1Beta2))
	}
	for _, crd := range ownCRDs(w.o) {
		if !w.o.Kinds.InstallCRDs {
			crds = append(crds, crd)
		}
	}
	for _, crd := range crds {
		require.NoError(w.t, w.store.Client().Create(w.t.Context(), crd))
	}
	if group == api.Gardener {
		create(w.t, w.store.Client(), foreignSystems()[group].objects)
		createToken(w.t, w.store, "default", "of-another-provider", cloudToken)
	}
}

// spec is that of the Machines of a template, or of a Machine whose parts have a name. What it refers to beside a class need not exist with
// a driver as a step.
func (w *rightsWorld) spec(name string) string {
	if s, foreign := foreignSystems()[w.o.Kinds.Group]; foreign {
		return s.spec
	}
	suffix, infra := "", fake.InfraMachineGVK(contract.V1Beta2)
	if name == "" {
		name, suffix = "demo", contract.TemplateSuffix
	}
	part := name
	switch {
	case w.o.Driver.IsProvider():
		infra = kwokdriver.GVK()
	case w.o.Driver.IsStep() && suffix == "":
		infra, part = api.Machinist.MachineClass(), "small"
	}
	config := fake.BootstrapConfigGVK(contract.V1Beta2)
	return fmt.Sprintf(`{clusterName: demo, version: v1.36.3, bootstrap: {configRef: {apiGroup: %s, kind: %s, name: %s}}, `+
		`infrastructureRef: {apiGroup: %s, kind: %s, name: %s}}`, config.Group, config.Kind+suffix, name, infra.Group, infra.Kind+suffix, part)
}

func (w *rightsWorld) create(format string, args ...any) *unstructured.Unstructured {
	w.t.Helper()
	return create(w.t, w.store.Client(), fmt.Sprintf("apiVersion: "+w.o.Kinds.Group.GroupVersion().String()+"\n"+format, args...))[0]
}

// runs waits until the only Machine is Running, has a Pod on its Node, and returns it.
func (w *rightsWorld) runs() *unstructured.Unstructured {
	w.t.Helper()
	var m unstructured.Unstructured
	eventually(w.t, "Running", func(ctx context.Context) string {
		all := listed(ctx, w.t, w.store, w.o.Kinds.Group)
		if len(all) != 1 {
			return fmt.Sprint(len(all), " Machines; denied: ", w.deniedSoFar())
		}
		node, phase := nodeAndPhase(w.o.Kinds.Group, &all[0])
		if m = all[0]; phase != "Running" || node == "" {
			return fmt.Sprint(m.Object["status"], "; denied: ", w.deniedSoFar())
		}
		return ""
	})
	return &m
}

func (w *rightsWorld) deniedSoFar() []string {
	w.user.mu.Lock()
	defer w.user.mu.Unlock()
	return slices.Sorted(maps.Keys(w.user.denied))
}

func (w *rightsWorld) machineLives() {
	w.t.Helper()
	w.parts("m1")
	m := w.create("kind: Machine\nmetadata: {name: m1, namespace: default}\nspec: %s", w.spec("m1"))
	w.dies(w.runs(), m)
}

// shared creates what Machines share: a Cluster, a class, and a rule for drains.
func (w *rightsWorld) shared() {
	w.t.Helper()
	create(w.t, w.store.Client(), `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDrainRule
metadata: {name: first, namespace: default}
spec: {drain: {behavior: Drain, order: 1}, pods: [{namespaceSelector: {matchLabels: {team: blue}}}]}
`)
	if w.o.Kinds.Group.IsClusterAPI() {
		plane := controlPlane()
		demo := fake.Cluster("demo", fake.WithField(map[string]any{
			"apiGroup": plane.GroupVersionKind().Group, "kind": plane.GetKind(), "name": plane.GetName()}, "spec", "controlPlaneRef"))
		status := demo.DeepCopy().Object["status"]
		require.NoError(w.t, w.store.Client().Create(w.t.Context(), plane))
		require.NoError(w.t, w.store.Client().Create(w.t.Context(), demo))
		for obj, status := range map[*unstructured.Unstructured]any{demo: status, plane: map[string]any{"externalManagedControlPlane": true}} {
			obj.Object["status"] = status
			require.NoError(w.t, w.store.Client().Status().Update(w.t.Context(), obj))
		}
	}
	if w.o.readsClasses() && w.o.Kinds.Group != api.Gardener {
		create(w.t, w.store.Client(), ownClasses)
	}
}

func controlPlane() *unstructured.Unstructured {
	plane := &unstructured.Unstructured{}
	plane.SetGroupVersionKind(schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "FakeControlPlane"})
	plane.SetNamespace("default")
	plane.SetName("demo")
	return plane
}

// parts creates what a Machine refers to, or the templates of a set.
func (w *rightsWorld) parts(name string) {
	w.t.Helper()
	infra, config := fake.InfraMachine(contract.V1Beta2, name), fake.BootstrapConfig(contract.V1Beta2, name)
	if w.o.Driver.IsProvider() {
		infra.SetGroupVersionKind(kwokdriver.GVK())
	}
	for _, part := range []*unstructured.Unstructured{infra, config} {
		if w.o.refersTo(part.GroupVersionKind().Group) {
			require.NoError(w.t, w.store.Client().Create(w.t.Context(), part))
		}
	}
}

func (w *rightsWorld) templates() {
	w.t.Helper()
	for _, gvk := range []schema.GroupVersionKind{fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2)} {
		if !w.o.refersTo(gvk.Group) {
			continue
		}
		template := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}},
		}}
		template.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + contract.TemplateSuffix))
		template.SetNamespace("default")
		template.SetName("demo")
		require.NoError(w.t, w.store.Client().Create(w.t.Context(), template))
	}
}

// dies deletes objects, the first of which is a Machine, whose Node has a Pod, or what owns it.
func (w *rightsWorld) dies(m, owner *unstructured.Unstructured) {
	w.t.Helper()
	node, _ := nodeAndPhase(w.o.Kinds.Group, m)
	require.NoError(w.t, w.store.Client().Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-" + m.GetName()},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}}},
	}))
	require.NoError(w.t, w.store.Client().Delete(w.t.Context(), owner))
	w.gone(m, owner)
}

// setLives has a deployment, or a set, make a Machine that gets another label.
func (w *rightsWorld) setLives() {
	w.t.Helper()
	w.templates()
	kind := map[bool]string{true: "MachineDeployment", false: "MachineSet"}[w.o.Kinds.MachineDeployments]
	ofCluster := ""
	if !w.o.Kinds.Group.IsForeign() {
		ofCluster = "clusterName: demo, "
	}
	owner := w.create("kind: %s\nmetadata: {name: workers, namespace: default}\n"+
		"spec: {%sreplicas: 1, selector: {matchLabels: {pool: workers}}, "+
		"template: {metadata: {labels: {pool: workers}}, spec: %s}}", kind, ofCluster, w.spec(""))
	w.runs()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"labels":{"tier":"b"}}}}}`))
	require.NoError(w.t, w.store.Client().Patch(w.t.Context(), owner, patch))
	eventually(w.t, "the label", func(ctx context.Context) string {
		all := listed(ctx, w.t, w.store, w.o.Kinds.Group)
		if len(all) != 1 || all[0].GetLabels()["tier"] != "b" {
			return fmt.Sprint(len(all), " Machines; denied: ", w.deniedSoFar())
		}
		return ""
	})
	w.dies(w.runs(), owner)
}

// clusterIsAway has the workload cluster of a Machine not answer, and then its Cluster deleted.
func (w *rightsWorld) clusterIsAway() {
	w.t.Helper()
	require.NoError(w.t, w.store.Client().Create(w.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "demo-kubeconfig", Labels: map[string]string{contract.ClusterNameLabel: "demo"},
		},
		Data: map[string][]byte{cluster.KubeconfigKey: []byte(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c,
			context: {cluster: c}}], clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`)},
	}))
	w.parts("m1")
	m := w.create("kind: Machine\nmetadata: {name: m1, namespace: default}\nspec: %s", w.spec("m1"))
	w.says(m, contract.ConditionInfrastructureReady, metav1.ConditionTrue)
	eventually(w.t, "a connection", func(context.Context) string {
		w.user.mu.Lock()
		defer w.user.mu.Unlock()
		if !w.user.used[grant{"get", "", "secrets", ""}] {
			return "the kubeconfig was not read"
		}
		return ""
	})
	require.NoError(w.t, w.store.Client().Delete(w.t.Context(), fake.Cluster("demo")))
	require.NoError(w.t, w.store.Client().Delete(w.t.Context(), m))
	w.gone(m)
}

func (w *rightsWorld) gone(objects ...*unstructured.Unstructured) {
	w.t.Helper()
	eventually(w.t, "the end", func(ctx context.Context) string {
		for _, obj := range objects {
			if err := w.store.Client().Get(ctx, client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
				return fmt.Sprint(err, obj.Object["status"], "; denied: ", w.deniedSoFar())
			}
		}
		return ""
	})
}

// says waits until a condition of an object has a status.
func (w *rightsWorld) says(obj *unstructured.Unstructured, kind string, status metav1.ConditionStatus) {
	w.t.Helper()
	eventually(w.t, kind, func(ctx context.Context) string {
		require.NoError(w.t, w.store.Client().Get(ctx, client.ObjectKeyFromObject(obj), obj))
		c, _, err := contract.ConditionsAt("status", "conditions").Find(obj.Object, kind)
		if err != nil || c.Status != status {
			return fmt.Sprint(obj.Object["status"], "; denied: ", w.deniedSoFar())
		}
		return ""
	})
}

// machineFails has a health check find a Machine whose kubelet is dead.
func (w *rightsWorld) machineFails() {
	w.t.Helper()
	labels := map[string]string{"checked": "yes"}
	check := fake.MachineHealthCheck("checks", labels, time.Second)
	check.SetGroupVersionKind(w.o.Kinds.Group.MachineHealthCheck().GVK)
	require.NoError(w.t, w.store.Client().Create(w.t.Context(), check))
	w.parts("m2")
	m := w.create("kind: Machine\nmetadata: {name: m2, namespace: default, labels: {checked: \"yes\"}}\nspec: %s", w.spec("m2"))
	name, _ := nodeAndPhase(w.o.Kinds.Group, w.runs())
	var node corev1.Node
	require.NoError(w.t, w.store.Client().Get(w.t.Context(), client.ObjectKey{Name: name}, &node))
	fake.SetNodeCondition(&node, corev1.NodeReady, corev1.ConditionFalse, time.Now().Add(-time.Hour))
	require.NoError(w.t, w.store.Client().Status().Update(w.t.Context(), &node))
	w.says(m, contract.ConditionHealthCheckSucceeded, metav1.ConditionFalse)
	require.NoError(w.t, w.store.Client().Delete(w.t.Context(), m))
	w.gone(m)
}

// poolLives has a pool whose provider makes a Machine for its instance.
func (w *rightsWorld) poolLives() {
	w.t.Helper()
	pool := fake.MachinePool("pool", 1, fake.WithField(map[string]any{"dataSecretName": "none"}, "spec", "template", "spec", "bootstrap"))
	pool.SetGroupVersionKind(w.o.Kinds.GroupOfPools().MachinePool().GVK)
	require.NoError(w.t, w.store.Client().Create(w.t.Context(), fake.InfraMachinePool(contract.V1Beta2, "pool")))
	require.NoError(w.t, w.store.Client().Create(w.t.Context(), pool))
	w.dies(w.runs(), pool)
}
