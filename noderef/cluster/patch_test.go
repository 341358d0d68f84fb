package cluster

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/fake"
)

// limited is a server without JSON Patch.
type limited struct {
	patcher
	store   *fake.Store
	merges  []map[string]any
	between func() // happens before the next merge patch arrives
}

func newLimited(t *testing.T) *limited {
	t.Helper()
	l := &limited{store: fake.NewStore(fake.Options{})}
	inner := l.store.Client()
	l.patcher = patcher{Client: interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if patch.Type() == types.JSONPatchType {
				return apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", schema.GroupResource{}, obj.GetName(), "", 0, true)
			}
			data, err := patch.Data(obj)
			require.NoError(t, err)
			merge := map[string]any{}
			require.NoError(t, json.Unmarshal(data, &merge))
			l.merges = append(l.merges, merge)
			if l.between != nil {
				between := l.between
				l.between = nil
				between()
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})}
	return l
}

func (l *limited) node(t *testing.T) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	require.NoError(t, l.store.Client().Get(t.Context(), types.NamespacedName{Name: "n1"}, node))
	return node
}

func (l *limited) send(t *testing.T, patch string) error {
	t.Helper()
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	return l.Patch(t.Context(), target, client.RawPatch(types.JSONPatchType, []byte(patch)))
}

func TestAServerWithoutJSONPatchGetsGuardedMergePatches(t *testing.T) {
	l := newLimited(t)
	node := fake.Node("n1", "x://1")
	node.Labels = map[string]string{"old": "1"}
	node.Spec.Taints = []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "b", Effect: "NoExecute"}}
	require.NoError(t, l.store.Client().Create(t.Context(), node))
	patch := `[{"op":"test","path":"/metadata/uid","value":"` + string(node.UID) + `"},
		{"op":"add","path":"/metadata/labels/example.com~1new","value":"2"}, {"op":"remove","path":"/metadata/labels/old"},
		{"op":"test","path":"/spec/taints/0/key","value":"a"}, {"op":"remove","path":"/spec/taints/0"},
		{"op":"add","path":"/spec/taints/-","value":{"key":"c","effect":"NoSchedule"}},
		{"op":"test","path":"/spec/unschedulable","value":null}, {"op":"add","path":"/spec/unschedulable","value":true}]`
	before := l.node(t)
	require.NoError(t, l.send(t, patch))
	got := l.node(t)
	require.Equal(t, "2", got.Labels["example.com/new"])
	require.NotContains(t, got.Labels, "old")
	require.Equal(t, []corev1.Taint{
		{Key: "b", Effect: "NoExecute"}, {Key: corev1.TaintNodeNotReady, Effect: "NoSchedule"}, {Key: "c", Effect: "NoSchedule"},
	}, got.Spec.Taints)
	require.True(t, got.Spec.Unschedulable)
	require.Equal(t, map[string]any{
		"uid": string(node.UID), "resourceVersion": before.ResourceVersion, "labels": map[string]any{"old": nil, "example.com/new": "2"},
	}, l.merges[0]["metadata"])

	t.Log("a write in between is a conflict, and is not undone")
	l.between = func() {
		touched := l.node(t)
		touched.Annotations = map[string]string{"beat": "1"}
		require.NoError(t, l.store.Client().Update(t.Context(), touched))
	}
	remove := `[{"op":"replace","path":"/spec/unschedulable","value":false}]`
	require.True(t, apierrors.IsConflict(l.send(t, remove)))
	require.NoError(t, l.send(t, remove))
	got = l.node(t)
	require.False(t, got.Spec.Unschedulable)
	require.Equal(t, "1", got.Annotations["beat"])

	t.Log("a test that fails is refused as an API server refuses it, and nothing is written")
	writes := len(l.merges)
	err := l.send(t, `[{"op":"test","path":"/metadata/uid","value":"another"},{"op":"add","path":"/spec/unschedulable","value":false}]`)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.Len(t, l.merges, writes)
}
