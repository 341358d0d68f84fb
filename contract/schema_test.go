package contract_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
)

const clusterAPI = "sigs.k8s.io/cluster-api@v1.13.6"

// schemaNode is the part of an OpenAPI schema that decides what an API server prunes.
type schemaNode struct {
	Type       string                 `json:"type"`
	Format     string                 `json:"format"`
	Properties map[string]*schemaNode `json:"properties"`
	Items      *schemaNode            `json:"items"`
	Additional any                    `json:"additionalProperties"`
	Preserve   bool                   `json:"x-kubernetes-preserve-unknown-fields"`
}

// at walks to a place; nil means that the API server would prune it.
func (n *schemaNode) at(segments ...string) *schemaNode {
	for _, s := range segments {
		switch {
		case n == nil:
			return nil
		case n.Items != nil:
			if _, err := strconv.Atoi(s); err != nil {
				return nil
			}
			n = n.Items
		default:
			n = n.Properties[s]
		}
	}
	return n
}

// machineSchema returns the schema of Machine v1beta2 from Cluster API's own CRD.
func machineSchema(t *testing.T) *schemaNode {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(moduleDir(t, clusterAPI), "config/crd/bases/cluster.x-k8s.io_machines.yaml"))
	require.NoError(t, err)
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPIV3Schema *schemaNode `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &crd))
	for _, v := range crd.Spec.Versions {
		if v.Name == "v1beta2" {
			return v.Schema.OpenAPIV3Schema
		}
	}
	t.Fatal("the CRD has no version v1beta2")
	return nil
}

// moduleDir returns where the go command keeps a module. It is not required by go.mod, because it pins other versions of
// Kubernetes.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "download %s: %s%s", module, out, stderr.String())
	var info struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &info))
	return info.Dir
}

// place is one field of a layout, found by reflection so that a new one cannot be forgotten.
type place struct {
	name string
	path contract.Path
	want string // type in the schema
}

func placesOf(t *testing.T, name string, value reflect.Value) []place {
	t.Helper()
	switch field := value.Interface().(type) {
	case contract.Field[string]:
		return []place{{name, field.Path(), "string"}}
	case contract.Field[bool]:
		return []place{{name, field.Path(), "boolean"}}
	case contract.Field[int32]:
		return []place{{name, field.Path(), "integer"}}
	case contract.Field[int64]:
		return []place{{name, field.Path(), "integer"}}
	case contract.ConditionsField:
		return listPlaces(name, field.Path(), "type", "status", "reason", "message", "lastTransitionTime", "observedGeneration")
	case contract.AddressesField:
		return listPlaces(name, field.Path(), "type", "address")
	}
	require.Equal(t, reflect.Struct, value.Kind(), "%s: the test does not know fields of type %s", name, value.Type())
	var places []place
	for i := range value.NumField() {
		field := value.Type().Field(i)
		require.True(t, field.IsExported(), "%s.%s: the test does not see into %s", name, field.Name, value.Type())
		places = append(places, placesOf(t, name+"."+field.Name, value.Field(i))...)
	}
	return places
}

func listPlaces(name string, list contract.Path, members ...string) []place {
	places := []place{{name, list, "array"}}
	for _, member := range members {
		want := "string"
		if member == "observedGeneration" {
			want = "integer"
		}
		path := list
		if !list.IsZero() {
			path = contract.NewPath(append(list.Segments(), "0", member)...)
		}
		places = append(places, place{name + "." + member, path, want})
	}
	return places
}

// The API server prunes what the schema does not know: a value written there would be lost without an error.
func TestMachineV1Beta2_EveryPlaceIsInClusterAPIsSchema(t *testing.T) {
	schema := machineSchema(t)
	places := placesOf(t, "MachineLayout", reflect.ValueOf(*contract.MachineV1Beta2()))
	require.Greater(t, len(places), reflect.TypeFor[contract.MachineLayout]().NumField())
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			require.False(t, p.path.IsZero(), "the layout has no place for it")
			if key, ok := annotationKey(p.path); ok {
				require.True(t, strings.HasPrefix(key, "machinist.dev/"), "%s is not ours", key)
				require.Empty(t, apivalidation.ValidateAnnotations(map[string]string{key: ""}, nil))
				return
			}
			node := schema.at(p.path.Segments()...)
			require.NotNil(t, node, "the API server would prune %s", p.path)
			require.Equal(t, p.want, node.Type)
			if strings.HasSuffix(p.path.String(), "Time") || strings.HasSuffix(p.path.String(), "lastUpdated") {
				require.Equal(t, "date-time", node.Format)
			}
		})
	}
}

func annotationKey(p contract.Path) (string, bool) {
	s := p.Segments()
	if len(s) == 3 && s[0] == "metadata" && s[1] == "annotations" {
		return s[2], true
	}
	return "", false
}

func TestMachineV1Beta2_NothingThatAnUpdateWritesWouldBePruned(t *testing.T) {
	schema := machineSchema(t)
	obj := machineKind().New()
	require.NoError(t, machineKind().Adapter.Write(obj, fullUpdate()))
	content := parseable(t, obj)
	delete(content, "metadata")
	require.Empty(t, pruned(schema, content, ""))
	require.Equal(t, []string{".spec.invented", ".status.addresses.0.zone"}, pruned(schema, parseJSON(t,
		`{"spec":{"invented":1,"clusterName":"c"},"status":{"addresses":[{"type":"Hostname","address":"a","zone":"z"}]}}`), ""),
		"the check itself must find what a schema does not know")
}

func parseable(t *testing.T, obj any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(obj)
	require.NoError(t, err)
	return parseJSON(t, string(raw))
}

// pruned lists the places of a value that an API server would drop.
func pruned(n *schemaNode, value any, at string) []string {
	if n == nil {
		return []string{at}
	}
	if n.Preserve || n.Additional != nil {
		return nil
	}
	var lost []string
	switch value := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(value) {
			lost = append(lost, pruned(n.Properties[key], value[key], at+"."+key)...)
		}
	case []any:
		for i, item := range value {
			lost = append(lost, pruned(n.Items, item, at+"."+strconv.Itoa(i))...)
		}
	}
	return lost
}
