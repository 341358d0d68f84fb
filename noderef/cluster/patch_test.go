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
	*patcher
	store   *fake.Store
	refused int
	merges  []map[string]any
	between func() // happens before the next merge patch arrives
}

func newLimited(t *testing.T) *limited {
	t.Helper()
	l := &limited{store: fake.NewStore(fake.Options{})}
	inner, ok := l.store.Client().(client.WithWatch)
	require.True(t, ok)
	l.patcher = &patcher{live: inner, Client: interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if patch.Type() == types.JSONPatchType {
				l.refused++
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
	require.NoError(t, l.live.Get(t.Context(), types.NamespacedName{Name: "n1"}, node))
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

	t.Log("it is not asked for JSON Patch again")
	require.NoError(t, l.send(t, `[{"op":"replace","path":"/spec/unschedulable","value":false}]`))
	require.Equal(t, 1, l.refused)
	require.False(t, l.node(t).Spec.Unschedulable)

	t.Log("a write in between is no conflict")
	l.between = func() {
		touched := l.node(t)
		touched.Annotations = map[string]string{"beat": "1"}
		require.NoError(t, l.store.Client().Update(t.Context(), touched))
	}
	require.NoError(t, l.send(t, `[{"op":"add","path":"/spec/unschedulable","value":true}]`))
	got = l.node(t)
	require.True(t, got.Spec.Unschedulable)
	require.Equal(t, "1", got.Annotations["beat"])

	t.Log("a test that fails is refused as an API server refuses it, and nothing is written")
	writes := len(l.merges)
	err := l.send(t, `[{"op":"test","path":"/metadata/uid","value":"another"},{"op":"add","path":"/spec/unschedulable","value":false}]`)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.Len(t, l.merges, writes)
}

func TestPatchesAreAppliedAsRFC6902Says(t *testing.T) {
	for name, tc := range map[string]struct {
		patch, want string // no want: it is refused
	}{
		"a member is added":              {`[{"op":"add","path":"/a/new","value":1}]`, `{"a":{"x":1,"new":1},"l":[1,2]}`},
		"a member is replaced by adding": {`[{"op":"add","path":"/a/x","value":{}}]`, `{"a":{"x":{}},"l":[1,2]}`},
		"a member is removed":            {`[{"op":"remove","path":"/a/x"}]`, `{"a":{},"l":[1,2]}`},
		"an element is inserted":         {`[{"op":"add","path":"/l/0","value":0}]`, `{"a":{"x":1},"l":[0,1,2]}`},
		"an element is added at the end": {`[{"op":"add","path":"/l/2","value":3}]`, `{"a":{"x":1},"l":[1,2,3]}`},
		"an element is replaced":         {`[{"op":"replace","path":"/l/1","value":3}]`, `{"a":{"x":1},"l":[1,3]}`},
		"what is absent is null":         {`[{"op":"test","path":"/b","value":null},{"op":"add","path":"/b","value":true}]`, `{"a":{"x":1},"b":true,"l":[1,2]}`},
		"a number is the same":           {`[{"op":"test","path":"/a/x","value":1}]`, `{"a":{"x":1},"l":[1,2]}`},
		"another value":                  {patch: `[{"op":"test","path":"/a/x","value":2}]`},
		"a parent that is absent":        {patch: `[{"op":"add","path":"/b/x","value":2}]`},
		"a member that is absent":        {patch: `[{"op":"remove","path":"/a/y"}]`},
		"a place that is absent":         {patch: `[{"op":"remove","path":"/l/2"}]`},
		"a place that is none":           {patch: `[{"op":"test","path":"/l/-","value":2}]`},
		"an operation that is not known": {patch: `[{"op":"move","from":"/a/x","path":"/a/y"}]`},
		"the whole object":               {patch: `[{"op":"remove","path":""}]`},
		"no patch":                       {patch: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := applyPatch(map[string]any{"a": map[string]any{"x": int64(1)}, "l": []any{int64(1), int64(2)}}, []byte(tc.patch))
			if tc.want == "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			text, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(text))
		})
	}
}
