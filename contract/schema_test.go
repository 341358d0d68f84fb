package contract_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

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
	IntOrText  bool                   `json:"x-kubernetes-int-or-string"`
}

// kind is the type, with a name for what may be a number or a text.
func (n *schemaNode) kind() string {
	if n.IntOrText {
		return "int-or-string"
	}
	return n.Type
}

// anything reports whether nothing is said of what is there.
func (n *schemaNode) anything() bool { return n.Preserve && n.Type == "" }

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
		case n.Preserve && n.Properties[s] == nil:
			return &schemaNode{Preserve: true}
		default:
			n = n.Properties[s]
		}
	}
	return n
}

// crdSchema returns the schema of one version from Cluster API's own CRD; kind is the plural, in lower case.
func crdSchema(t *testing.T, kind, version string) *schemaNode {
	t.Helper()
	return schemaIn(t, filepath.Join(moduleDir(t, clusterAPI), "config/crd/bases/cluster.x-k8s.io_"+kind+".yaml"), version)
}

// schemaIn returns the schema of one version from the file of a CRD.
func schemaIn(t *testing.T, file, version string) *schemaNode {
	t.Helper()
	schema, found := schemasOf(t, file)[version]
	require.True(t, found, "%s has no version %s", file, version)
	return schema
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
	// format is the format in the schema, when it matters.
	format string
}

func placesOf(t *testing.T, name string, value reflect.Value) []place {
	t.Helper()
	if places := structuredPlacesOf(t, name, value.Interface()); places != nil {
		return places
	}
	switch field := value.Interface().(type) {
	case contract.Version:
		return nil
	case contract.Field[string]:
		return []place{{name, contract.PathOf(field), "string", ""}}
	case contract.Field[bool]:
		return []place{{name, contract.PathOf(field), "boolean", ""}}
	case contract.Field[int32]:
		return []place{{name, contract.PathOf(field), "integer", ""}}
	case contract.Field[int64]:
		return []place{{name, contract.PathOf(field), "integer", ""}}
	case contract.Field[time.Time]:
		return []place{{name, contract.PathOf(field), "string", "date-time"}}
	case contract.Field[time.Duration]:
		return []place{{name, contract.PathOf(field), map[bool]string{true: "integer", false: "string"}[contract.InSeconds(field)], ""}}
	case contract.Field[intstr.IntOrString]:
		return []place{{name, contract.PathOf(field), "int-or-string", ""}}
	case contract.Field[json.RawMessage]:
		return []place{{name, contract.PathOf(field), "object", ""}}
	case contract.ConditionsField:
		places := []place{{name, contract.PathOf(field), "array", ""}}
		for _, path := range field.Paths() {
			places = append(places, listPlaces(name+" at "+path.String(), path, "type", "status", "reason", "message", "lastTransitionTime")...)
		}
		return places
	}
	require.Equal(t, reflect.Struct, value.Kind(), "%s: the test does not know fields of type %s", name, value.Type())
	var places []place
	for i := range value.NumField() {
		field := value.Type().Field(i)
		require.True(t, field.IsExported(), "%s.%s: the test does not see into %s", name, field.Name, value.Type())
		inner := name + "." + field.Name
		if field.Anonymous {
			inner = name
		}
		places = append(places, placesOf(t, strings.TrimPrefix(inner, "."), value.Field(i))...)
	}
	return places
}

// structuredPlacesOf knows the field types that hold more than one value; nil for the others.
func structuredPlacesOf(t *testing.T, name string, field any) []place {
	t.Helper()
	switch field := field.(type) {
	case []contract.Path:
		places := []place{}
		for _, path := range field {
			places = append(places, place{name + " " + path.String(), path, "", ""}) // of any type
		}
		return places
	case contract.Field[[]string]:
		return listPlaces(name, contract.PathOf(field))
	case contract.Field[[]contract.Taint]:
		return listPlaces(name, contract.PathOf(field), "key", "value", "effect")
	case contract.Field[[]contract.ReadinessGate]:
		return listPlaces(name, contract.PathOf(field), "conditionType")
	case contract.Field[[]contract.Address]:
		return listPlaces(name, contract.PathOf(field), "type", "address")
	case contract.Field[map[string]string]:
		return []place{{name, contract.PathOf(field), "object", ""}}
	case contract.Field[*metav1.LabelSelector]:
		return selectorPlaces(name, contract.PathOf(field))
	case contract.Field[[]contract.HealthRule]:
		return rulePlaces(name, field)
	case contract.Field[[]contract.NodeRef]:
		return listPlaces(name, contract.PathOf(field), "apiVersion", "kind", "name", "uid")
	}
	return nil
}

func listPlaces(name string, list contract.Path, members ...string) []place {
	places := []place{{name, list, "array", ""}}
	for _, member := range members {
		if !list.IsZero() {
			places = append(places, place{name + "." + member, contract.NewPath(append(list.Segments(), "0", member)...), "string", ""})
		}
	}
	return places
}

func rulePlaces(name string, field contract.Field[[]contract.HealthRule]) []place {
	member, want := "timeout", "string"
	if contract.RulesInSeconds(field) {
		member, want = "timeoutSeconds", "integer"
	}
	timeout := contract.NewPath(append(field.Path().Segments(), "0", member)...)
	return append(listPlaces(name, field.Path(), "type", "status"), place{name + "." + member, timeout, want, ""})
}

func selectorPlaces(name string, selector contract.Path) []place {
	at := func(key string) contract.Path {
		if selector.IsZero() {
			return selector
		}
		return contract.NewPath(append(selector.Segments(), key)...)
	}
	places := listPlaces(name+".matchExpressions", at("matchExpressions"), "key", "operator")
	return append(places, place{name, selector, "object", ""}, place{name + ".matchLabels", at("matchLabels"), "object", ""})
}

// layoutCase is a layout and the schema that judges it.
type layoutCase struct {
	layout        any
	kind, version string
	// none are members that this shape has no place for at all.
	none []string
}

func layoutCases() map[string]layoutCase {
	inTemplate := func(v1beta2 bool, none ...string) []string {
		none = append(slices.Clip(none), "Template.ProviderSpec", "Template.Class.Group", "Template.Class.APIVersion", "Template.Class.Kind",
			"Template.Class.Namespace", "Template.Class.Name", "Template.NodeLabels", "Template.NodeAnnotations")
		if v1beta2 {
			return append(none, "Template.Bootstrap.APIVersion", "Template.Bootstrap.Namespace", "Template.Infrastructure.APIVersion",
				"Template.Infrastructure.Namespace")
		}
		return append(none, "Template.Bootstrap.Group", "Template.Infrastructure.Group")
	}
	inPools := []string{"Selector", "Selector.matchLabels", "Selector.matchExpressions", "SelectorText", "DeletionOrder", "MachineNaming"}
	inGardener := []string{"InPlaceMaxSurge", "InPlaceMaxUnavailable"}
	return map[string]layoutCase{
		"Machine v1beta2": {layout: *contract.LayoutsOf(contract.V1Beta2).Machine, kind: "machines", version: "v1beta2", none: []string{
			"Bootstrap.APIVersion", "Bootstrap.Namespace", "Infrastructure.APIVersion", "Infrastructure.Namespace", "NodeKind", "NodeAPIVersion",
			"ProviderSpec", "Class.Group", "Class.APIVersion", "Class.Kind", "Class.Namespace", "Class.Name", "NodeLabels", "NodeAnnotations"}},
		"Machine v1beta1": {layout: *contract.LayoutsOf(contract.V1Beta1).Machine, kind: "machines", version: "v1beta1", none: []string{
			"Bootstrap.Group", "Infrastructure.Group", "MinReady",
			"ProviderSpec", "Class.Group", "Class.APIVersion", "Class.Kind", "Class.Namespace", "Class.Name", "NodeLabels", "NodeAnnotations"}},
		"MachineSet v1beta2": {layout: *contract.LayoutsOf(contract.V1Beta2).MachineSet, kind: "machinesets", version: "v1beta2",
			none: inTemplate(true)},
		"MachineSet v1beta1": {layout: *contract.LayoutsOf(contract.V1Beta1).MachineSet, kind: "machinesets", version: "v1beta1",
			none: inTemplate(false)},
		"MachineDeployment v1beta2": {layout: *contract.LayoutsOf(contract.V1Beta2).MachineDeployment,
			kind: "machinedeployments", version: "v1beta2",
			none: inTemplate(true, append(inGardener, "RevisionHistoryLimit", "ProgressDeadline")...)},
		"MachineDeployment v1beta1": {layout: *contract.LayoutsOf(contract.V1Beta1).MachineDeployment,
			kind: "machinedeployments", version: "v1beta1",
			none: inTemplate(false, inGardener...)},
		"MachinePool v1beta2": {layout: *contract.LayoutsOf(contract.V1Beta2).MachinePool, kind: "machinepools", version: "v1beta2",
			none: inTemplate(true, inPools...)},
		"MachinePool v1beta1": {layout: *contract.LayoutsOf(contract.V1Beta1).MachinePool, kind: "machinepools", version: "v1beta1",
			none: inTemplate(false, inPools...)},
		"MachineHealthCheck v1beta2": {layout: *contract.LayoutsOf(contract.V1Beta2).HealthCheck, kind: "machinehealthchecks", version: "v1beta2",
			none: []string{"Template.Group", "Template.Namespace"}},
		"MachineHealthCheck v1beta1": {layout: *contract.LayoutsOf(contract.V1Beta1).HealthCheck, kind: "machinehealthchecks", version: "v1beta1",
			none: []string{"Template.Group"}},
		"Cluster v1beta2": {layout: *contract.LayoutsOf(contract.V1Beta2).Cluster, kind: "clusters", version: "v1beta2",
			none: []string{"ControlPlane.APIVersion", "ControlPlane.Namespace"}},
		"Cluster v1beta1": {layout: *contract.LayoutsOf(contract.V1Beta1).Cluster, kind: "clusters", version: "v1beta1",
			none: []string{"ControlPlaneInitialized", "ControlPlane.Group"}},
	}
}

// The API server prunes what the schema does not know: a value written there would be lost without an error.
func TestLayouts_EveryPlaceIsInClusterAPIsSchema(t *testing.T) {
	for name, c := range layoutCases() {
		schema := crdSchema(t, c.kind, c.version)
		places := placesOf(t, "", reflect.ValueOf(c.layout))
		require.Greater(t, len(places), reflect.TypeOf(c.layout).NumField())
		for _, p := range places {
			t.Run(name+"/"+p.name, func(t *testing.T) { p.isKept(t, schema, c.none) })
		}
	}
}

func (p place) isKept(t *testing.T, schema *schemaNode, none []string) {
	t.Helper()
	require.Equal(t, slices.Contains(none, p.name), p.path.IsZero(), "whether the layout has a place for it")
	if p.path.IsZero() {
		return
	}
	if key, ok := annotationKey(p.path); ok {
		require.True(t, strings.HasPrefix(key, "machinist.dev/"), "%s is not ours", key)
		require.Empty(t, apivalidation.ValidateAnnotations(map[string]string{key: ""}, nil))
		return
	}
	node := schema.at(p.path.Segments()...)
	require.NotNil(t, node, "the API server would prune %s", p.path)
	if p.want != "" && !node.anything() {
		require.Equal(t, p.want, node.kind())
	}
	if p.format != "" {
		require.Equal(t, p.format, node.Format)
	}
}

func annotationKey(p contract.Path) (string, bool) {
	s := p.Segments()
	if len(s) == 3 && s[0] == "metadata" && s[1] == "annotations" {
		return s[2], true
	}
	return "", false
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
