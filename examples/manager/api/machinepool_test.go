package api_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
	"github.com/machinist-dev/machinist/examples/manager/api"
)

// versionOf is the one version of a CRD, without what is told to people only, and without the rules in CEL, which have sentences.
func versionOf(t *testing.T, crd map[string]any) map[string]any {
	t.Helper()
	versions, found, err := unstructured.NestedSlice(crd, "spec", "versions")
	require.NoError(t, err)
	require.True(t, found)
	require.Len(t, versions, 1)
	version, ok := plain(versions[0]).(map[string]any)
	require.True(t, ok)
	return version
}

func plain(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			if _, text := child.(string); text && key == "description" || key == "x-kubernetes-validations" {
				delete(value, key)
				continue
			}
			value[key] = plain(child)
		}
	case []any:
		for i := range value {
			value[i] = plain(value[i])
		}
	}
	return value
}

func TestOurMachinePoolIsClusterAPIsWithASelector(t *testing.T) {
	var ours map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(api.CRDs()), &ours))
	theirs, err := cluster.ClusterAPICRDs(t.Context(), api.GroupVersion().Version, "MachinePool")
	require.NoError(t, err)
	got := versionOf(t, ours)
	scale, found, err := unstructured.NestedString(got, "subresources", "scale", "labelSelectorPath")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, ".status.selector", scale)
	unstructured.RemoveNestedField(got, "subresources", "scale", "labelSelectorPath")
	status := []string{"schema", "openAPIV3Schema", "properties", "status", "properties"}
	selector, _, err := unstructured.NestedString(got, append(status, "selector", "type")...)
	require.NoError(t, err)
	require.Equal(t, "string", selector)
	unstructured.RemoveNestedField(got, append(status, "selector")...)
	replicas := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "replicas", "default"}
	_, found, err = unstructured.NestedFieldNoCopy(got, replicas...)
	require.NoError(t, err)
	require.True(t, found, "Cluster API has a webhook for it")
	unstructured.RemoveNestedField(got, replicas...)
	// Read as the other was: YAML has numbers, of which JSON makes int64.
	var content unstructured.Unstructured
	raw, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "X", "is": got})
	require.NoError(t, err)
	raw, err = yaml.YAMLToJSON(raw)
	require.NoError(t, err)
	require.NoError(t, content.UnmarshalJSON(raw))
	if diff := cmp.Diff(versionOf(t, theirs[0].Object), content.Object["is"]); diff != "" {
		t.Errorf("(-Cluster API +ours):\n%s", diff)
	}
}
