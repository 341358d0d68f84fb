//go:build e2e

package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// fight is about a field that another writer changes back as soon as the manager has written it.
type fight struct {
	obj      client.Object
	resource string
	undo     string // a merge patch
	isSet    func(client.Object) bool
	// says is part of the message of a condition of the Machine.
	condition, says string
}

// fights lets the other writer act for eight seconds, and checks that the Machine names it, and how often the manager writes meanwhile: a
// burst of five, and one after 1 s, 2 s and 4 s.
func (w *world) fights(m *unstructured.Unstructured, f fight) {
	w.t.Helper()
	mark, err := w.plane.Audit().Mark()
	require.NoError(w.t, err)
	named := false
	for began := time.Now(); time.Since(began) < 8*time.Second; {
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKeyFromObject(f.obj), f.obj))
		if f.isSet(f.obj) {
			_ = w.client.Patch(w.t.Context(), f.obj, client.RawPatch(types.MergePatchType, []byte(f.undo)), client.FieldOwner("opponent"))
		}
		c, _, err := contract.ConditionsAt("status", "conditions").Find(w.get(m).Object, f.condition)
		require.NoError(w.t, err)
		named = named || c.Status == metav1.ConditionTrue && strings.Contains(c.Message, f.says)
	}
	events, err := w.plane.Audit().Since(mark)
	require.NoError(w.t, err)
	writes := events.From(managerAgent).Writes().Where(func(e cluster.AuditEvent) bool {
		return e.Name == f.obj.GetName() && e.Resource == f.resource
	})
	require.True(w.t, named, "%s without %q", describe(w.get(m)), f.says)
	require.LessOrEqual(w.t, len(writes), 5+3, "%s", writes)
	require.GreaterOrEqual(w.t, len(writes), 5, "%s", writes)
}

// TestE2EAFightWithAnotherWriterCostsFewWrites has three of them, which took 843, 855 and 739 writes without the limit.
func TestE2EAFightWithAnotherWriterCostsFewWrites(t *testing.T) {
	w := newWorld(t, worldOptions{})
	objects := w.apply(document("fights", contract.V1Beta2))
	infra, m := objects[0], w.ready(objects[2])
	name, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}

	const label = "gpu.node.cluster.x-k8s.io/model"
	w.fights(m, fight{
		obj: node, resource: "nodes", undo: `{"metadata":{"labels":{"` + label + `":"theirs"}}}`,
		isSet:     func(obj client.Object) bool { return obj.GetLabels()[label] != "theirs" },
		condition: contract.ConditionContested,
		says:      "metadata.labels[" + label + "] of Node " + name + " is changed back by opponent",
	})
	w.eventually("the end of the fight", func() string {
		if fresh := w.get(m); !strings.Contains(describe(fresh), "Contested=False NotContested") {
			return describe(fresh)
		}
		return ""
	})
	w.fights(m, fight{
		obj: infra, resource: "fakemachines", undo: `{"metadata":{"ownerReferences":null}}`,
		isSet:     func(obj client.Object) bool { return len(obj.GetOwnerReferences()) > 0 },
		condition: contract.ConditionContested, says: "metadata.ownerReferences of " + infra.GetKind() + " default/fights is changed back",
	})

	stays := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stays", Finalizers: []string{"example.com/stays"}},
		Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
	require.NoError(t, w.client.Create(t.Context(), stays))
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.fights(m, fight{
		obj: node, resource: "nodes", undo: `{"spec":{"unschedulable":false}}`,
		isSet:     func(obj client.Object) bool { n, ok := obj.(*corev1.Node); return ok && n.Spec.Unschedulable },
		condition: contract.ConditionDeleting, says: "the Node was made schedulable again during its drain, ",
	})
	defer w.insists(node.DeepCopy(), `{"spec":{"unschedulable":false}}`)()
	require.NoError(t, w.client.Patch(t.Context(), stays, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	w.gone(m) // the drain ends when no pod is left, whoever has the last word about the Node
}

// insists lets another writer patch an object twenty times a second until the returned function is called.
func (w *world) insists(obj client.Object, patch string) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
				_ = w.client.Patch(context.WithoutCancel(w.t.Context()), obj, client.RawPatch(types.MergePatchType, []byte(patch))) // or it is gone
			}
		}
	}()
	return func() { close(over); <-ended }
}

// noFights checks that nothing was put off: no object has the condition, which stays when a fight is over.
func (w *world) noFights(kinds ...schema.GroupVersionKind) {
	w.t.Helper()
	for _, kind := range kinds {
		for _, obj := range w.listed(kind) {
			c, found, err := contract.ConditionsAt("status", "conditions").Find(obj.Object, contract.ConditionContested)
			require.NoError(w.t, err)
			require.False(w.t, found, "%s %s: %s", kind.Kind, obj.GetName(), c.Message)
		}
	}
}
