package api_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/internal/apitest/published"
)

// ownCRDs are the CustomResourceDefinitions of machinist.dev, by kind.
func ownCRDs(t *testing.T) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for document := range strings.SplitSeq(strings.TrimPrefix(api.CRDs(), "---\n"), "\n---\n") {
		crd := &unstructured.Unstructured{}
		raw, err := yaml.YAMLToJSON([]byte(document))
		require.NoError(t, err)
		require.NoError(t, crd.UnmarshalJSON(raw))
		kind, _, err := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		require.NoError(t, err)
		all[kind] = crd.Object
	}
	return all
}

// versionOf is the one version of a CRD, without what is told to people only, and without the rules in CEL, which a test on a real control
// plane breaks one by one.
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

// differences lists where ours differs from theirs.
func differences(at string, theirs, ours any) []string {
	from, isMap := theirs.(map[string]any)
	to, same := ours.(map[string]any)
	if !isMap || !same {
		if reflect.DeepEqual(theirs, ours) {
			return nil
		}
		return []string{fmt.Sprintf("%s: %s is %s", strings.TrimPrefix(at, "."), text(theirs), text(ours))}
	}
	var all []string
	names := maps.Clone(from)
	maps.Copy(names, to)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		below := at + "." + name
		if name == "properties" || name == "schema" || name == "openAPIV3Schema" {
			below = at
		}
		all = append(all, differences(below, from[name], to[name])...)
	}
	return all
}

func text(value any) string {
	if value == nil {
		return "nothing"
	}
	raw, _ := json.Marshal(value)
	if len(raw) > 100 {
		return "..."
	}
	return string(raw)
}

var update = flag.Bool("update", false, "write "+differencesFile)

// differencesFile lists, kind by kind, where the CRDs of machinist.dev differ from Cluster API's: defaults of its webhooks, bounds that
// rules in CEL need, what a manager with a driver and Nodes in its own cluster does not need, and status that no Reconciler here writes.
const differencesFile = "testdata/differences.txt"

func TestOurCRDsDifferFromClusterAPIsInThisOnly(t *testing.T) {
	t.Parallel()
	own := ownCRDs(t)
	delete(own, api.Machinist.MachineClass().Kind) // Cluster API has no such kind
	kinds := slices.Sorted(maps.Keys(own))
	theirs, err := published.ClusterAPICRDs(t.Context(), api.ClusterAPI.GroupVersion().Version, kinds...)
	require.NoError(t, err)
	require.Len(t, theirs, len(kinds))
	var lines []string
	for i, kind := range kinds {
		lines = append(lines, kind)
		for _, difference := range differences("", versionOf(t, theirs[i].Object), versionOf(t, own[kind])) {
			lines = append(lines, "  "+difference)
		}
	}
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(differencesFile, []byte(got), 0o600))
	}
	want, err := os.ReadFile(differencesFile)
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", differencesFile, diff)
	}
}

func TestEveryFieldOfOurTypesIsInOurCRDs(t *testing.T) {
	t.Parallel()
	types := map[string]reflect.Type{
		"Machine": reflect.TypeFor[api.Machine](), "MachineSet": reflect.TypeFor[api.MachineSet](),
		"MachineDeployment": reflect.TypeFor[api.MachineDeployment](), "MachinePool": reflect.TypeFor[api.MachinePool](),
		"MachineHealthCheck": reflect.TypeFor[api.MachineHealthCheck](), "MachineClass": reflect.TypeFor[api.MachineClass](),
	}
	own := ownCRDs(t)
	require.ElementsMatch(t, slices.Collect(maps.Keys(types)), slices.Collect(maps.Keys(own)))
	for kind, of := range types {
		s := schemaOf(t, own[kind])
		for _, name := range []string{"spec", "status"} {
			field, found := of.FieldByName(strings.ToUpper(name[:1]) + name[1:])
			if !found {
				require.NotContains(t, s.Properties, name, kind)
				continue
			}
			requireServed(t, field.Type, s.Properties[name], kind+"."+name)
		}
	}
}
