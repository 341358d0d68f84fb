package patch

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// whole is an object that encodes itself.
type whole struct{ corev1.Node }

func (w *whole) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"id": w.Name + w.Kind})
}
func (w *whole) DeepCopyObject() runtime.Object { return &whole{*w.DeepCopy()} }

// renames is an adapter that changes the kind of an object.
type renames struct{}

func (renames) Read(contract.Object, *contract.MachineState) error { return nil }

func (renames) Write(obj contract.Object, _ contract.MachineUpdate) error {
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "K"})
	return nil
}

func TestAPatchIsMadeOfTheEncodedContents(t *testing.T) {
	kind, typed := contract.Kind{Adapter: renames{}}, map[string]any{"apiVersion": "v1", "kind": "K"}
	for name, tc := range map[string]struct {
		obj  contract.Object
		want map[string]any
	}{
		"an object that encodes itself": {&whole{corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}, map[string]any{"id": "nK"}},
		"one of a Go type":              {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, typed},
		"unstructured content":          {&unstructured.Unstructured{Object: map[string]any{"x": "y"}}, typed},
	} {
		t.Run(name, func(t *testing.T) {
			contents, err := Apply(kind, tc.obj, contract.MachineUpdate{})
			require.NoError(t, err)
			require.Equal(t, tc.want, map[string]any(contents))
		})
	}
}
