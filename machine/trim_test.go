package machine_test

import (
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

// decoded returns a Machine as an informer decodes it: with texts of its own.
func decoded(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine",
		"metadata":{"name":%q,"managedFields":[{"manager":"m"}],"labels":{"team":"blue"}},
		"status":{"conditions":[{"type":"Ready","status":"True","reason":"Ready","message":"all is well"}]}}`, name)))
	return u
}

func condition0(t *testing.T, u *unstructured.Unstructured) map[string]any {
	t.Helper()
	list, ok := u.Object["status"].(map[string]any)["conditions"].([]any)
	require.True(t, ok)
	c, ok := list[0].(map[string]any)
	require.True(t, ok)
	return c
}

func TestTrimmedObjectsSayTheSameAndShareWhatTheyHaveInCommon(t *testing.T) {
	t.Parallel()
	trim := machine.TrimObjects()
	one, other := decoded(t, "m1"), decoded(t, "m2")
	want := decoded(t, "m1")
	want.SetManagedFields(nil)
	for _, u := range []*unstructured.Unstructured{one, other} {
		got, err := trim(u)
		require.NoError(t, err)
		require.Same(t, u, got)
	}
	if diff := cmp.Diff(want.Object, one.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	data := func(m map[string]any) map[string]*byte {
		at := map[string]*byte{}
		for key, value := range m {
			at["key "+key] = unsafe.StringData(key)
			if text, ok := value.(string); ok && key == "reason" {
				at["value "+key] = unsafe.StringData(text)
			}
		}
		return at
	}
	a, b := data(condition0(t, one)), data(condition0(t, other))
	require.Len(t, a, 5)
	for name, at := range a {
		if b[name] != at {
			t.Errorf("%s is there twice", name)
		}
	}
}

func TestTrimmedNodesKeepWhatIsRead(t *testing.T) {
	t.Parallel()
	trim := machine.TrimObjects()
	make1 := func() *corev1.Node {
		n := fake.Node("n1", "a://1")
		n.Labels = map[string]string{"zone": "a"}
		n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		n.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}}
		n.Status.NodeInfo.KubeletVersion = "v1.36.3"
		n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True", Reason: "KubeletReady", Message: "posting"}}
		return n
	}
	node, want := make1(), make1()
	want.ManagedFields, want.Status.Images = nil, nil
	_, err := trim(node)
	require.NoError(t, err)
	if diff := cmp.Diff(want, node); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	_, err = trim(pod)
	require.NoError(t, err)
	require.Empty(t, pod.ManagedFields)
	for _, odd := range []any{nil, "text", &unstructured.Unstructured{}} {
		got, err := trim(odd)
		require.NoError(t, err)
		require.Equal(t, odd, got)
	}
}

func TestTrimmingIsBoundedAndSafeForManyInformers(t *testing.T) {
	t.Parallel()
	trim := machine.TrimObjects()
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 3000 {
				u := &unstructured.Unstructured{Object: map[string]any{fmt.Sprintf("f%d-%d", w, i): "x", "kind": fmt.Sprint("K", w, i)}}
				if _, err := trim(u); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
