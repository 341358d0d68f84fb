package contract_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

func TestConditions_NewOnesStandByName(t *testing.T) {
	typesAt := func(t *testing.T, obj map[string]any, path ...string) []string {
		t.Helper()
		list, _, err := unstructured.NestedSlice(obj, path...)
		require.NoError(t, err)
		var types []string
		for _, item := range list {
			values, ok := item.(map[string]any)
			require.True(t, ok)
			name, ok := values["type"].(string)
			require.True(t, ok)
			types = append(types, name)
		}
		return types
	}
	entries := func(types ...string) []any {
		var list []any
		for _, name := range types {
			list = append(list, map[string]any{"type": name, "status": "True", "reason": "R", "message": "",
				"lastTransitionTime": "2026-03-01T12:00:00Z"})
		}
		return list
	}
	for name, tc := range map[string]struct {
		shape contract.ConditionShape
		have  []any
		write []string
		want  []string
	}{
		"in any order": {shape: contract.ShapeMetaV1, write: []string{"Paused", "Available", "Ready", "Deleting"},
			want: []string{"Available", "Deleting", "Paused", "Ready"}},
		"the older shape": {shape: contract.ShapeV1Beta1, write: []string{"Paused", "Available", "Ready", "Deleting"},
			want: []string{"Available", "Deleting", "Paused", "Ready"}},
		"that of Nodes": {shape: contract.ShapeNode, write: []string{"Ready", "Paused"}, want: []string{"Paused", "Ready"}},
		"others stay as they are": {shape: contract.ShapeMetaV1, have: entries("Paused", "NodeReady", "Deleting"),
			write: []string{"Ready", "NodeReady"}, want: []string{"Paused", "NodeReady", "Deleting", "Ready"}},
	} {
		t.Run(name, func(t *testing.T) {
			layout := &contract.MachineLayout{Conditions: contract.ConditionsShaped(tc.shape, "status", "conditions")}
			kind := contract.Unstructured(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Machine"}, layout)
			obj, ok := kind.New().(*unstructured.Unstructured)
			require.True(t, ok)
			if tc.have != nil {
				obj.Object["status"] = map[string]any{"conditions": tc.have}
			}
			var update contract.MachineUpdate
			for _, name := range tc.write {
				update.Conditions = append(update.Conditions, metav1.Condition{Type: name, Status: "True", Reason: "R"})
			}
			require.NoError(t, kind.Adapter.Write(obj, update))
			if diff := cmp.Diff(tc.want, typesAt(t, obj.Object, "status", "conditions")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
