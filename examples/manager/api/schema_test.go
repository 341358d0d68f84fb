package api_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/internal/apitest/published"
)

// schema is the part of an OpenAPI schema that says which Machines an API server stores.
type schema struct {
	Type       string             `json:"type"`
	Format     string             `json:"format"`
	Enum       []string           `json:"enum"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	MinItems   int                `json:"minItems"`
	MinLength  int                `json:"minLength"`
	MapKeys    []string           `json:"x-kubernetes-list-map-keys"`

	PreserveUnknown      bool    `json:"x-kubernetes-preserve-unknown-fields"`
	IntOrString          bool    `json:"x-kubernetes-int-or-string"`
	AdditionalProperties *schema `json:"additionalProperties"`
}

// machineSchema is that of Machine as Cluster API's CRD serves it.
func machineSchema(t testing.TB) *schema {
	t.Helper()
	crds, err := published.ClusterAPICRDs(t.Context(), api.ClusterAPI.GroupVersion().Version, "Machine")
	require.NoError(t, err)
	return schemaOf(t, crds[0].Object)
}

// schemaOf is the schema of the one version of a CRD.
func schemaOf(t testing.TB, crd map[string]any) *schema {
	t.Helper()
	versions, found, err := unstructured.NestedSlice(crd, "spec", "versions")
	require.NoError(t, err)
	require.True(t, found)
	require.Len(t, versions, 1)
	content, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
	require.NoError(t, err)
	require.True(t, found)
	raw, err := json.Marshal(content)
	require.NoError(t, err)
	var s schema
	require.NoError(t, json.Unmarshal(raw, &s))
	return &s
}

func TestEveryFieldOfTheTypeIsInTheServedSchema(t *testing.T) {
	served := machineSchema(t)
	for _, name := range []string{"spec", "status"} {
		field, _ := reflect.TypeFor[api.Machine]().FieldByName(strings.ToUpper(name[:1]) + name[1:])
		requireServed(t, field.Type, served.Properties[name], name)
	}
}

// requireServed walks a type beside its schema.
func requireServed(t *testing.T, of reflect.Type, s *schema, at string) {
	t.Helper()
	require.NotNil(t, s, "the API server would prune %s", at)
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of == reflect.TypeFor[metav1.Time]():
		require.Equal(t, "string date-time", s.Type+" "+s.Format, at)
	case of == reflect.TypeFor[intstr.IntOrString]():
		require.True(t, s.IntOrString, at)
	case of == reflect.TypeFor[runtime.RawExtension]():
		require.True(t, s.Type == "object" && s.PreserveUnknown, at)
	case of.Kind() == reflect.Map:
		require.Equal(t, "object string", s.Type+" "+s.AdditionalProperties.Type, at)
	case of.Kind() == reflect.Struct:
		require.Equal(t, "object", s.Type, at)
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if field.Anonymous {
				requireServed(t, field.Type, s, at)
				continue
			}
			require.NotEmpty(t, name, "%s.%s has no name", at, field.Name)
			requireServed(t, field.Type, s.Properties[name], at+"."+name)
		}
	case of.Kind() == reflect.Slice:
		require.Equal(t, "array", s.Type, at)
		requireServed(t, of.Elem(), s.Items, at+"[]")
	default:
		kinds := map[reflect.Kind]string{
			reflect.String: "string ", reflect.Bool: "boolean ", reflect.Int32: "integer int32", reflect.Int64: "integer int64",
		}
		require.Contains(t, kinds, of.Kind(), "%s: the test does not know %s", at, of)
		require.Equal(t, kinds[of.Kind()], s.Type+" "+s.Format, at)
	}
}

// A field that may be empty on the wire must not be dropped when it is, or a patch could not tell.
func TestTextsThatMayBeEmptyArePointers(t *testing.T) {
	for name, of := range map[string]reflect.Type{"spec": reflect.TypeFor[api.MachineSpec](), "status": reflect.TypeFor[api.MachineStatus]()} {
		requireNoneEmpty(t, of, machineSchema(t).Properties[name], name)
	}
}

func requireNoneEmpty(t *testing.T, of reflect.Type, s *schema, at string) {
	t.Helper()
	if of.Kind() == reflect.String {
		require.True(t, s.MinLength > 0 || len(s.Enum) > 0, "%s may be empty", at)
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[metav1.Time]() {
		return
	}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		requireNoneEmpty(t, field.Type, s.Properties[name], at+"."+name)
	}
}
