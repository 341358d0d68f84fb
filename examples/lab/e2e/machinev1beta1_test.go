//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

var machineV1Beta1 = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"}

// documentV1Beta1 is a Machine as a person would have written it for years, with providers of the same contract.
func documentV1Beta1(name string) string {
	infra, bootstrap := fake.InfraMachineGVK(contract.V1Beta1), fake.BootstrapConfigGVK(contract.V1Beta1)
	return fmt.Sprintf(`apiVersion: %[2]s
kind: %[3]s
metadata: {name: %[1]s, namespace: default}
spec: {failureDomain: zone-a}
---
apiVersion: %[4]s
kind: %[5]s
metadata: {name: %[1]s, namespace: default}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: Machine
metadata: {name: %[1]s, namespace: default, finalizers: [example.com/hold]}
spec:
  clusterName: demo
  version: v1.36.3
  nodeDrainTimeout: 10m
  nodeDeletionTimeout: 1m30s
  bootstrap:
    configRef: {apiVersion: %[4]s, kind: %[5]s, name: %[1]s}
  infrastructureRef: {apiVersion: %[2]s, kind: %[3]s, name: %[1]s}
`, name, infra.GroupVersion(), infra.Kind, bootstrap.GroupVersion(), bootstrap.Kind)
}

// It has a control plane of its own: a CRD that stored one version cannot go back to another.
func TestAMachineOfV1Beta1LivesAndDiesOnARealControlPlane(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	plane, err := cluster.Start(t.Context(), cluster.Options{Log: os.Stderr, Without: []cluster.Component{cluster.Scheduler}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	said := &warnings{}
	observed := plane.Config()
	observed.WarningHandler = said
	live, err := client.NewWithWatch(observed, client.Options{})
	require.NoError(t, err)
	w := &world{t: t, plane: plane, client: live}
	w.installCRDs("v1beta1")
	of := fake.ProviderOptions{Machine: machineV1Beta1}
	w.startProviders(worldOptions{infrastructure: fake.Infrastructure{ProviderOptions: of}, bootstrap: fake.Bootstrap{ProviderOptions: of}})
	w.startReconciler(contract.Unstructured(machineV1Beta1, contract.LayoutsOf(contract.V1Beta1).Machine), machine.Options{}, said)

	objects := w.apply(documentV1Beta1("old"))
	infra, bootstrap, m := objects[0], objects[1], objects[2]
	m = w.ready(m)
	var node corev1.Node
	require.NoError(t, live.Get(t.Context(), clientKey("", "old"), &node))
	w.showsV1Beta1(m, infra, &node)

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app"},
		Spec: corev1.PodSpec{NodeName: "old", Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}}}}
	require.NoError(t, live.Create(t.Context(), pod))
	invented := client.RawPatch(types.MergePatchType, []byte(`{"status":{"invented":"x"}}`))
	require.NoError(t, live.Status().Patch(t.Context(), m.DeepCopy(), invented))
	require.NoError(t, live.Delete(t.Context(), m))
	w.gone(pod, infra, bootstrap, &node)
	w.endsV1Beta1(m, node.UID)
	w.gone(m)

	require.Equal(t, []string{`unknown field "status.invented"`}, said.about("unknown field"), "the API server warns of all that it prunes")
	events, err := plane.Audit().Since(cluster.AuditMark{})
	require.NoError(t, err)
	writes := events.From(managerAgent).Writes().To("cluster.x-k8s.io", "machines")
	require.NotEmpty(t, writes)
	for _, e := range writes {
		if e.Version != "v1beta1" || e.Code >= 300 && e.Code != 409 { // a conflict is decided again
			t.Errorf("a write that was refused, or went to another version: %s %s", e.URI, e)
		}
	}
	evictions := events.From(managerAgent).To("", "pods").Where(func(e cluster.AuditEvent) bool { return e.Subresource == "eviction" })
	require.NotEmpty(t, evictions, "the Node was drained before it went")
}

// showsV1Beta1 checks a running Machine as those see it who read the object itself.
func (w *world) showsV1Beta1(m, infra *unstructured.Unstructured, node *corev1.Node) {
	w.t.Helper()
	type content = map[string]any
	spec, _, err := unstructured.NestedMap(m.Object, "spec")
	require.NoError(w.t, err)
	got := content{"spec": spec}
	for _, key := range []string{"phase", "nodeRef", "bootstrapReady", "infrastructureReady", "addresses", "observedGeneration"} {
		got[key], _, err = unstructured.NestedFieldCopy(m.Object, "status", key)
		require.NoError(w.t, err)
	}
	reference := func(gvk schema.GroupVersionKind) content {
		return content{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "name": "old"}
	}
	want := content{
		"spec": content{
			"clusterName": "demo", "version": "v1.36.3", "nodeDrainTimeout": "10m", "nodeDeletionTimeout": "1m30s",
			"providerID": fake.ProviderID(w.get(infra)), "failureDomain": "zone-a",
			"bootstrap":         content{"configRef": reference(fake.BootstrapConfigGVK(contract.V1Beta1)), "dataSecretName": "old"},
			"infrastructureRef": reference(fake.InfraMachineGVK(contract.V1Beta1)),
		},
		"phase": "Running", "bootstrapReady": true, "infrastructureReady": true, "observedGeneration": m.GetGeneration(),
		"nodeRef":   content{"apiVersion": "v1", "kind": "Node", "name": "old", "uid": string(node.UID)},
		"addresses": []any{content{"type": "Hostname", "address": "old"}, content{"type": "InternalIP", "address": "10.0.0.1"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("the Machine (-want +got):\n%s", diff)
	}
	have := w.conditionsV1Beta1(m)
	for _, kind := range []string{"Ready", "BootstrapConfigReady", "InfrastructureReady", "NodeReady", "NodeHealthy", "Deleting", "Paused"} {
		if !slices.Contains(have, kind) {
			w.t.Errorf("the Machine has no condition %s: %v", kind, have)
		}
	}
}

// conditionsV1Beta1 checks that both lists say the same, each in its own shape, and returns the types.
func (w *world) conditionsV1Beta1(m *unstructured.Unstructured) []string {
	w.t.Helper()
	old, _, err := unstructured.NestedSlice(m.Object, "status", "conditions")
	require.NoError(w.t, err)
	now, _, err := unstructured.NestedSlice(m.Object, "status", "v1beta2", "conditions")
	require.NoError(w.t, err)
	require.Len(w.t, old, len(now))
	byType := map[any]map[string]any{} // each list has an order of its own
	for _, c := range old {
		byType[c.(map[string]any)["type"]] = c.(map[string]any)
	}
	var kinds []string
	for i := range now {
		after := now[i].(map[string]any)
		before := byType[after["type"]]
		require.NotNil(w.t, before, "%v is in one list only", after)
		kinds = append(kinds, fmt.Sprint(after["type"]))
		wantSeverity := any(nil)
		if after["status"] == "False" {
			wantSeverity = "Info"
		}
		if before["severity"] != wantSeverity {
			w.t.Errorf("severity of %v: want %v, got %v", before, wantSeverity, before["severity"])
		}
		if after["observedGeneration"] != m.GetGeneration() {
			w.t.Errorf("%v is not about generation %d", after, m.GetGeneration())
		}
		delete(before, "severity")
		delete(after, "observedGeneration")
		if after["message"] == "" { // the older schema allows none
			delete(after, "message")
		}
		if diff := cmp.Diff(after, before); diff != "" {
			w.t.Errorf("the two lists differ (-metav1 +v1beta1):\n%s", diff)
		}
	}
	return kinds
}

// endsV1Beta1 checks a Machine with only the finalizer of the test, and removes the finalizer.
func (w *world) endsV1Beta1(m *unstructured.Unstructured, node any) {
	w.t.Helper()
	var last *unstructured.Unstructured
	w.eventually("the end of the deletion", func() string {
		last = w.get(m)
		if len(last.GetFinalizers()) > 1 {
			return describe(last)
		}
		c, _, err := contract.ConditionsAt("status", "v1beta2", "conditions").Find(last.Object, contract.ConditionDeleting)
		if err != nil || c.Reason != contract.ReasonDeletionCompleted {
			return describe(last)
		}
		return ""
	})
	w.conditionsV1Beta1(last)
	started, _, err := contract.At[time.Time]("status", "deletion", "nodeDrainStartTime").Get(last.Object)
	require.NoError(w.t, err)
	require.False(w.t, started.IsZero(), "the drain is recorded")
	require.Contains(w.t, last.GetAnnotations()[contract.DeletionAnnotation], fmt.Sprintf(`"node":%q`, node))
	require.Contains(w.t, last.GetAnnotations()[contract.DeletionAnnotation], `"drain":{"end":`)
	last.SetFinalizers(nil)
	require.NoError(w.t, w.client.Update(w.t.Context(), last))
}

// startReconciler runs a Machine reconciler in this process, and keeps what the API server warns it of.
func (w *world) startReconciler(kind contract.Kind, o machine.Options, said *warnings) {
	w.t.Helper()
	rest := w.plane.Config()
	rest.UserAgent, rest.WarningHandler = managerAgent, said
	w.inProcess(rest, ctrl.Options{}, func(ctx context.Context, mgr ctrl.Manager) error {
		_, err := machine.SetupWithManager(ctx, mgr, kind, o)
		return err
	})
}

// warnings keeps what an API server warns of. Safe for concurrent use.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements client-go's WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// about returns the warnings with a text in them, in order.
func (w *warnings) about(text string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []string
	for _, said := range w.texts {
		if strings.Contains(said, text) {
			found = append(found, said)
		}
	}
	return found
}
