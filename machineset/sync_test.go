package machineset

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

func TestWhatASetGivesDoesNotDependOnItsReplicas(t *testing.T) {
	kinds, err := ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	set := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "a"}, "status": map[string]any{"replicas": int64(1)},
		"spec": map[string]any{"replicas": int64(1), "template": map[string]any{"spec": map[string]any{"version": "v1.36.3"}}},
	}}
	says := func(value any, fields ...string) [32]byte {
		changed := set.DeepCopy()
		require.NoError(t, unstructured.SetNestedField(changed.Object, value, fields...))
		sum, err := saysBesideReplicas(kinds.Set, changed)
		require.NoError(t, err)
		return sum
	}
	before, err := saysBesideReplicas(kinds.Set, set)
	require.NoError(t, err)
	require.Equal(t, before, says(int64(5), "spec", "replicas"))
	require.Equal(t, before, says(int64(5), "status", "replicas"))
	require.Equal(t, before, says("b", "metadata", "name"))
	require.NotEqual(t, before, says("b", "spec", "template", "metadata", "labels", "a"))
	require.NotEqual(t, before, says("b", "spec", "whatever"))
}
