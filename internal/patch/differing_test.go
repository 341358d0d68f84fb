package patch

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/machinist-dev/machinist/contract"
)

func aNode() *corev1.Node {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{}, CreationTimestamp: at,
			DeletionGracePeriodSeconds: new(int64(1)), Finalizers: []string{"example.com/f"},
		},
		Spec: corev1.NodeSpec{ProviderID: "p://1", Taints: []corev1.Taint{{Key: "k", Effect: "NoExecute", TimeAdded: &at}}},
		Status: corev1.NodeStatus{
			Capacity:        corev1.ResourceList{"cpu": resource.MustParse("1")},
			Conditions:      []corev1.NodeCondition{{Type: "Ready", LastTransitionTime: at}, {Type: "Other"}},
			NodeInfo:        corev1.NodeSystemInfo{Architecture: "arm64", KubeletVersion: "v1.35.0"},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 1}},
			Config:          &corev1.NodeConfigStatus{Error: "e"},
		},
	}
}

// encoded is a type that encodes itself, in an object of another Go type.
type encoded struct{ Text, Quiet string }

func (e encoded) MarshalJSON() ([]byte, error) { return json.Marshal(e.Text + e.Quiet) }

type odd struct {
	corev1.Node `json:",inline"`

	Own  encoded `json:"own"`
	skip int
}

func (o *odd) DeepCopyObject() runtime.Object { return &odd{*o.DeepCopy(), o.Own, o.skip} }

func TestAPatchOfAGoTypeIsThatOfItsWholeContent(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*odd){
		"nothing":                   func(*odd) {},
		"a label":                   func(o *odd) { o.Labels = map[string]string{"a": "c", "d": "e"} },
		"all labels removed":        func(o *odd) { o.Labels = nil },
		"none for empty":            func(o *odd) { o.Annotations = nil },
		"a time":                    func(o *odd) { o.CreationTimestamp = metav1.NewTime(o.CreationTimestamp.Add(time.Hour)) },
		"a time of another zone":    func(o *odd) { o.CreationTimestamp.Time = o.CreationTimestamp.In(time.FixedZone("z", 3600)) },
		"less than a second":        func(o *odd) { o.CreationTimestamp.Time = o.CreationTimestamp.Add(time.Millisecond) },
		"no time":                   func(o *odd) { o.CreationTimestamp = metav1.Time{} },
		"a pointer":                 func(o *odd) { o.DeletionGracePeriodSeconds = new(int64(2)) },
		"an equal pointer":          func(o *odd) { o.DeletionGracePeriodSeconds = new(int64(1)) },
		"a pointer to a struct":     func(o *odd) { o.Status.Config = &corev1.NodeConfigStatus{} },
		"one member of a struct":    func(o *odd) { o.Status.NodeInfo.KubeletVersion = "" },
		"a struct":                  func(o *odd) { o.Status.NodeInfo = corev1.NodeSystemInfo{} },
		"a number in a struct":      func(o *odd) { o.Status.DaemonEndpoints.KubeletEndpoint.Port = 0 },
		"a list":                    func(o *odd) { o.Spec.Taints = nil },
		"an entry of a list":        func(o *odd) { o.Status.Conditions = o.Status.Conditions[:1] },
		"a quantity":                func(o *odd) { o.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2")} },
		"an equal quantity":         func(o *odd) { o.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("1000m")} },
		"what encodes itself":       func(o *odd) { o.Own.Quiet = "z" },
		"a kind":                    func(o *odd) { o.Kind = "Node" },
		"what is not encoded":       func(o *odd) { o.skip++ },
		"several, in both sections": func(o *odd) { o.Spec.Unschedulable, o.Status.Phase, o.Finalizers = true, "Running", nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := &odd{Node: *aNode(), Own: encoded{"x", "y"}}, &odd{Node: *aNode(), Own: encoded{"x", "y"}}
			change(after)
			want, err := converted(before.DeepCopyObject(), after.DeepCopyObject())
			require.NoError(t, err)
			got, err := differing(before, after)
			require.NoError(t, err)
			for part, of := range map[string]func(Contents) Document{"whole": Contents.Whole, "main": Contents.Main, "status": Contents.Status} {
				if diff := cmp.Diff(of(want), of(got), cmp.AllowUnexported(Document{})); diff != "" {
					t.Errorf("%s (-content +members):\n%s", part, diff)
				}
			}
			unchanged := &odd{Node: *aNode(), Own: encoded{"x", "y"}}
			require.Equal(t, unchanged, before)
			change(unchanged)
			require.Equal(t, unchanged, after)
		})
	}
}

// whole is an object that encodes itself.
type whole struct{ corev1.Node }

func (w *whole) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"id": w.Name + w.Kind})
}
func (w *whole) DeepCopyObject() runtime.Object { return &whole{*w.DeepCopy()} }

func TestAnObjectThatEncodesItselfIsComparedAsItIsEncoded(t *testing.T) {
	t.Parallel()
	before, after := &whole{*aNode()}, &whole{*aNode()}
	after.Kind = "K"
	contents, err := differing(before, after)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"id": "nK"}, contents.Whole().body)
}

func TestObjectsOfTwoTypesAreComparedByTheirContents(t *testing.T) {
	t.Parallel()
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "n"}}}
	contents, err := differing(u, &whole{*aNode()})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"id": "n", "metadata": map[string]any{"name": nil}}, contents.Whole().body)
	_, err = differing(u, contract.Object((*corev1.Node)(nil)))
	require.Error(t, err)
}

func TestAPatchConvertsWhatChanges(t *testing.T) {
	before, after := aNode(), aNode()
	after.Status.Phase = "Running"
	all := testing.AllocsPerRun(100, func() { _, _ = converted(before, after) })
	changed := testing.AllocsPerRun(100, func() { _, _ = differing(before, after) })
	require.Less(t, changed, all/2)
}
