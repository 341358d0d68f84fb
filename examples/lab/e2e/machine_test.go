//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/noderef/propagate"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// document is a Machine as a person would write it, with what it refers to.
func document(name string, v contract.Version) string {
	infra, config := fake.InfraMachineGVK(v), fake.BootstrapConfigGVK(v)
	return fmt.Sprintf(`apiVersion: %[2]s
kind: %[3]s
metadata: {name: %[1]s, namespace: default}
---
apiVersion: %[4]s
kind: %[5]s
metadata: {name: %[1]s, namespace: default}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  name: %[1]s
  namespace: default
  labels:
    node-role.kubernetes.io/worker: ""
    gpu.node.cluster.x-k8s.io/model: a100
    team: blue
spec:
  clusterName: demo
  bootstrap:
    configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: %[5]s, name: %[1]s}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: %[3]s, name: %[1]s}
`, name, infra.GroupVersion(), infra.Kind, config.GroupVersion(), config.Kind)
}

func TestAMachineLivesAndDiesOnARealControlPlane(t *testing.T) {
	w := newWorld(t, worldOptions{})
	for _, v := range contract.Versions() {
		t.Run("contract "+string(v), func(t *testing.T) { w.livesAndDies(t, v) })
	}
}

func (w *world) livesAndDies(t *testing.T, v contract.Version) {
	outer := w.t
	w.t = t
	defer func() { w.t = outer }()
	mark, err := w.plane.Audit().Mark()
	require.NoError(t, err)
	dying, staying := "dies-"+string(v), "stays-"+string(v)
	objects := w.apply(document(dying, v))
	infra, config, m := objects[0], objects[1], objects[2]
	other := w.apply(document(staying, v))

	m = w.ready(m)
	w.isRunning(m, infra)
	w.ready(other[2])

	watched := w.runWorkload("web-"+string(v), []string{dying, staying})
	require.NoError(t, w.client.Delete(t.Context(), m))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: dying}}
	w.gone(m, infra, config, node)
	w.seesTheEnd(watched, dying, infra)
	watched.check(t, dying, infra)
	w.touchedNothingElse(mark, watched.podsOn(dying), dying, staying)

	require.NoError(t, w.client.Delete(t.Context(), watched.deployment))
	require.NoError(t, w.client.Delete(t.Context(), watched.budget))
	require.NoError(t, w.client.Delete(t.Context(), other[2]))
	w.gone(other[2], other[1], other[0], &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: staying}})
}

// isRunning checks everything that a running Machine and its Node must show.
func (w *world) isRunning(m, infra *unstructured.Unstructured) {
	w.t.Helper()
	var state contract.MachineState
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	require.NoError(w.t, kind.Adapter.Read(m, &state))
	var node corev1.Node
	require.NoError(w.t, w.client.Get(w.t.Context(), clientKey("", m.GetName()), &node))

	type facts struct {
		Phase, ProviderID, Secret string
		Node                      contract.NodeRef
		Addresses                 []contract.Address
	}
	want := facts{
		Phase: "Running", ProviderID: fake.ProviderID(w.get(infra)), Secret: m.GetName(),
		Node:      contract.NodeRef{Name: m.GetName(), UID: node.UID},
		Addresses: []contract.Address{{Type: "Hostname", Address: m.GetName()}, {Type: "InternalIP", Address: "10.0.0.1"}},
	}
	got := facts{state.Phase, state.ProviderID, state.DataSecretName.Or(""), state.Node, state.Addresses}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("the Machine (-want +got):\n%s", diff)
	}
	labels := map[string]string{}
	for key, value := range node.Labels {
		if strings.Contains(key, "node-role") || strings.Contains(key, "cluster.x-k8s.io") || key == "team" {
			labels[key] = value
		}
	}
	if diff := cmp.Diff(map[string]string{"node-role.kubernetes.io/worker": "", "gpu.node.cluster.x-k8s.io/model": "a100"},
		labels); diff != "" {
		w.t.Errorf("labels of the Node (-want +got):\n%s", diff)
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == propagate.UninitializedTaintKey {
			w.t.Error("the Node is still tainted as uninitialized")
		}
	}
}

// touchedNothingElse reads the audit log: the manager wrote its Machines, what they refer to, their Nodes, evictions from
// the Node that went, its lease and events, and nothing else. Nothing was forbidden to it either.
func (w *world) touchedNothingElse(mark cluster.AuditMark, evictable map[string]bool, machines ...string) {
	w.t.Helper()
	events, err := w.plane.Audit().Since(mark)
	require.NoError(w.t, err)
	mine := map[string]bool{}
	for _, name := range machines {
		mine[name] = true
	}
	writes := events.From(managerAgent).Writes()
	if len(writes) == 0 {
		w.t.Error("the audit log has no write of the manager: is its user agent right?")
	}
	for _, e := range writes {
		allowed := e.Resource == "leases" || e.Resource == "events" ||
			e.Resource == "pods" && e.Subresource == "eviction" && evictable[e.Name] ||
			mine[e.Name] && (e.Resource == "nodes" || strings.HasSuffix(e.Group, "cluster.x-k8s.io"))
		if !allowed {
			w.t.Errorf("the manager wrote what is none of its business: %s", e)
		}
	}
	for _, e := range events.From(managerAgent) {
		if e.Code == 401 || e.Code == 403 {
			w.t.Errorf("the manager lacks a right that it needs: %s", e)
		}
	}
}
