//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// setDocument is a MachineSet as a person would write it, with its templates.
func setDocument(name string, replicas int) string {
	infra, config := fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2)
	return fmt.Sprintf(`apiVersion: %[2]s
kind: %[3]sTemplate
metadata: {name: %[1]s, namespace: default}
spec: {template: {spec: {size: large}}}
---
apiVersion: %[4]s
kind: %[5]sTemplate
metadata: {name: %[1]s, namespace: default}
spec: {template: {spec: {}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: %[1]s, namespace: default}
spec:
  clusterName: demo
  replicas: %[6]d
  selector: {matchLabels: {pool: %[1]s}}
  template:
    metadata: {labels: {pool: %[1]s}}
    spec:
      clusterName: demo
      version: v1.36.3
      bootstrap:
        configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: %[5]sTemplate, name: %[1]s}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: %[3]sTemplate, name: %[1]s}
`, name, infra.GroupVersion(), infra.Kind, config.GroupVersion(), config.Kind, replicas)
}

// newSetWorld also has the CRDs of sets and their templates, without a controller.
func newSetWorld(t *testing.T) *world {
	t.Helper()
	return newSetWorldOn(t, shared(t))
}

func newSetWorldOn(t *testing.T, plane *cluster.ControlPlane) *world {
	t.Helper()
	w := newBareWorld(t, plane)
	crds, err := cluster.ClusterAPICRDs(t.Context(), "v1beta2", "MachineSet", "MachineDeployment")
	require.NoError(t, err)
	for _, gvk := range []schema.GroupVersionKind{fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2)} {
		crds = append(crds, fake.CRD(gvk.GroupVersion().WithKind(gvk.Kind+contract.TemplateSuffix), contract.V1Beta2))
	}
	require.NoError(t, cluster.InstallCRDs(t.Context(), w.plane.Config(), crds...))
	return w
}

// setManager is examples/manager with sets and without leader election, with no more rights than it asks for.
func (w *world) setManager(binary string) *managerProcess {
	w.t.Helper()
	return w.managerWith(binary, managerAgent+"-sets", "--machinesets")
}

// managerWith is examples/manager with flags that say what it reconciles, as a user with the rights that it asks for with these flags.
func (w *world) managerWith(binary, user string, flags ...string) *managerProcess {
	w.t.Helper()
	m := &managerProcess{t: w.t, binary: binary, args: append([]string{
		"--clusters=never", "--kubeconfig", w.kubeconfigWith(binary, user, flags...), "--health-probe-bind-address", "127.0.0.1:0",
		"--metrics-bind-address=0",
	}, flags...)}
	m.start()
	return m
}

// kubeconfigWith is for a user who is bound to the ClusterRole that the manager prints with some flags.
func (w *world) kubeconfigWith(binary, user string, flags ...string) string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), binary, append(flags, "--print-rbac")...).Output()
	require.NoError(w.t, err)
	var role rbacv1.ClusterRole
	require.NoError(w.t, yaml.Unmarshal(out, &role))
	role.Name = user
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	for _, obj := range []client.Object{&role, binding} {
		if err := w.client.Create(w.t.Context(), obj); !apierrors.IsAlreadyExists(err) {
			require.NoError(w.t, err)
		}
	}
	w.knowsRights(user, role.Rules)
	limited, err := w.plane.ConfigFor(user)
	require.NoError(w.t, err)
	path := filepath.Join(w.t.TempDir(), "kubeconfig")
	require.NoError(w.t, cluster.WriteKubeconfig(path, limited))
	return path
}

// knowsRights waits until the API server knows of the rules of a role that a user has. It reads them a moment after they are written.
func (w *world) knowsRights(user string, rules []rbacv1.PolicyRule) {
	w.t.Helper()
	resource, sub, _ := strings.Cut(rules[0].Resources[0], "/")
	w.eventually("the rights of "+user, func() string {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: rules[0].Verbs[0], Group: rules[0].APIGroups[0], Resource: resource, Subresource: sub,
			},
		}}
		require.NoError(w.t, w.client.Create(w.t.Context(), review))
		if !review.Status.Allowed {
			return fmt.Sprint("it is refused ", rules[0])
		}
		return ""
	})
}

// scaleOf is the scale subresource of a set.
func (w *world) scaleOf(set *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	scale := &unstructured.Unstructured{}
	scale.SetGroupVersionKind(schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"})
	require.NoError(w.t, w.client.SubResource("scale").Get(w.t.Context(), set, scale))
	return scale
}

// scaleTo does what kubectl scale does, which tries again when another client has written meanwhile.
func (w *world) scaleTo(set *unstructured.Unstructured, replicas int64) {
	w.t.Helper()
	require.NoError(w.t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		scale := w.scaleOf(set)
		require.NoError(w.t, unstructured.SetNestedField(scale.Object, replicas, "spec", "replicas"))
		return w.client.SubResource("scale").Update(w.t.Context(), set.DeepCopy(), client.WithSubResourceBody(scale))
	}))
}

func (w *world) listed(gvk schema.GroupVersionKind) []unstructured.Unstructured {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	require.NoError(w.t, w.client.List(w.t.Context(), list, client.InNamespace("default")))
	return list.Items
}

// setHas waits until a set has so many Machines, all of them available, and says so.
func (w *world) setHas(set *unstructured.Unstructured, n int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s to have %d Machines", set.GetName(), n), func() string {
		fresh := w.get(set)
		for _, field := range []string{"replicas", "readyReplicas", "availableReplicas"} {
			if got, found, _ := unstructured.NestedInt64(fresh.Object, "status", field); !found || got != int64(n) {
				return fmt.Sprintf("%s is %d; %s", field, got, describe(fresh))
			}
		}
		if got := len(w.listed(fake.MachineGVK())); got != n {
			return fmt.Sprintf("there are %d Machines", got)
		}
		return ""
	})
}

// printed is what kubectl get prints of a set.
func (w *world) printed(set *unstructured.Unstructured) map[string]string {
	w.t.Helper()
	config := rest.CopyConfig(w.plane.Config())
	config.GroupVersion = &schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
	config.APIPath = "/apis"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	get, err := rest.RESTClientFor(config)
	require.NoError(w.t, err)
	raw, err := get.Get().Namespace("default").Resource("machinesets").Name(set.GetName()).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(w.t.Context())
	require.NoError(w.t, err)
	var table metav1.Table
	require.NoError(w.t, json.Unmarshal(raw, &table))
	require.Len(w.t, table.Rows, 1)
	cells := map[string]string{}
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 && column.Name != "Age" {
			cells[column.Name] = strings.TrimSuffix(fmt.Sprint(table.Rows[0].Cells[i]), ".0")
		}
	}
	return cells
}

func TestASetIsScaledAndDeletedOnARealControlPlane(t *testing.T) {
	w := newSetWorld(t)
	w.startProviders(worldOptions{})
	m := w.setManager(managerBinary(t))
	t.Cleanup(func() {
		m.stop()
		if t.Failed() {
			t.Log(m.log.String())
		}
	})
	objects := w.apply(setDocument("pool", 0))
	set := objects[2]
	w.scaleTo(set, 5)
	w.setHas(set, 5)
	w.scaleTo(set, 2)
	w.setHas(set, 2)

	status := w.scaleOf(set).Object["status"]
	text := "cluster.x-k8s.io/cluster-name=demo,pool=pool"
	require.Equal(t, map[string]any{"replicas": int64(2), "selector": text}, status)
	var byText unstructured.UnstructuredList
	byText.SetGroupVersionKind(fake.MachineGVK().GroupVersion().WithKind("MachineList"))
	selector, err := metav1.ParseToLabelSelector(text)
	require.NoError(t, err)
	require.NoError(t, w.client.List(t.Context(), &byText, client.InNamespace("default"), client.MatchingLabels(selector.MatchLabels)))
	require.Len(t, byText.Items, 2, "the selector of the scale subresource finds the Machines")
	want := map[string]string{
		"Name": "pool", "Cluster": "demo", "Desired": "2", "Current": "2", "Ready": "2", "Available": "2", "Up-to-date": "0",
		"Version": "v1.36.3",
	}
	if diff := cmp.Diff(want, w.printed(set)); diff != "" {
		t.Errorf("kubectl get machinesets (-want +got):\n%s", diff)
	}

	require.NoError(t, w.client.Delete(t.Context(), set))
	w.gone(set)
	for _, gvk := range []schema.GroupVersionKind{fake.MachineGVK(), fake.InfraMachineGVK(contract.V1Beta2),
		fake.BootstrapConfigGVK(contract.V1Beta2)} {
		require.Empty(t, w.listed(gvk), gvk.Kind)
	}
	require.NoError(t, w.client.Delete(t.Context(), objects[0]))
	require.NoError(t, w.client.Delete(t.Context(), objects[1]))
}

// kill ends the manager as a crash does.
func (m *managerProcess) kill() {
	m.t.Helper()
	require.NoError(m.t, m.cmd.Process.Kill())
	_ = m.cmd.Wait() // it says that it was killed
}

// nothingLeft waits until everything that a set has made is gone, Nodes and Secrets too.
func (w *world) nothingLeft() {
	w.t.Helper()
	w.eventually("everything to be gone", func() string {
		for _, gvk := range []schema.GroupVersionKind{
			fake.MachineGVK(), fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2),
		} {
			if left := w.listed(gvk); len(left) > 0 {
				return fmt.Sprintf("%d %s are left, such as %s", len(left), gvk.Kind, left[0].GetName())
			}
		}
		for _, kind := range []string{"Node", "Secret"} {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("v1")
			list.SetKind(kind + "List")
			require.NoError(w.t, w.client.List(w.t.Context(), list))
			for i := range list.Items {
				if name := list.Items[i].GetName(); len(name) > 6 && name[:6] == "chaos-" {
					return kind + " " + name + " is left"
				}
			}
		}
		return ""
	})
}
