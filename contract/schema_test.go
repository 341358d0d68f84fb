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

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"

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

// membersOf are what is read in an entry of a list, by the type of its place, with the types in a schema.
func membersOf(typeName string) map[string]string {
	texts := func(names ...string) map[string]string {
		members := map[string]string{}
		for _, name := range names {
			members["0."+name] = "string"
		}
		return members
	}
	switch typeName {
	case "list of addresses":
		return texts("type", "address")
	case "list of conditions":
		return texts("type", "status", "reason", "message", "lastTransitionTime")
	case "list of versions":
		return texts("version")
	case "list of taints":
		return texts("key", "value", "effect")
	case "list of readiness gates":
		return texts("conditionType")
	case "list of Nodes":
		return texts("apiVersion", "kind", "name", "uid")
	case "list of rules with timeout":
		return texts("type", "status", "timeout")
	case "list of rules with timeoutSeconds":
		members := texts("type", "status")
		members["0.timeoutSeconds"] = "integer"
		return members
	case "label selector":
		return map[string]string{"matchLabels": "object", "matchExpressions.0.key": "string", "matchExpressions.0.operator": "string"}
	}
	return nil
}

// inSchema is the type that a schema has for the type of a place; empty for any.
func inSchema(t *testing.T, typeName string) string {
	t.Helper()
	types := map[string]string{"content": "", "string": "string", "bool": "boolean", "32-bit integer": "integer", "integer": "integer",
		"seconds": "integer", "time": "string", "duration": "string", "32-bit integer or percentage": "int-or-string", "object": "object",
		"reference": "object", "map of strings": "object", "label selector": "object"}
	if strings.HasPrefix(typeName, "list of ") {
		return "array"
	}
	require.Contains(t, types, typeName)
	return types[typeName]
}

// fits checks the type of a place, and of what is read inside it.
func fits(t *testing.T, what string, node *schemaNode, typeName string) {
	t.Helper()
	if want := inSchema(t, typeName); want != "" && !node.anything() {
		require.Equal(t, want, node.kind(), what)
	}
	switch typeName {
	case "time":
		require.Equal(t, "date-time", node.Format, what)
	case "list of strings":
		require.Equal(t, "string", node.Items.Type, what)
	case "map of strings":
		require.True(t, node.Preserve || cmp.Equal(map[string]any{"type": "string"}, node.Additional), what)
	}
	for member, want := range membersOf(typeName) {
		inner := node.at(strings.Split(member, ".")...)
		require.NotNil(t, inner, "%s.%s", what, member)
		if !inner.Preserve {
			require.Equal(t, want, inner.Type, "%s.%s", what, member)
		}
	}
}

// layoutCase is a pointer to a layout, and the schema that judges it.
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
	inPools := []string{"Selector", "SelectorText", "DeletionOrder", "MachineNaming"}
	inGardener := []string{"InPlaceMaxSurge", "InPlaceMaxUnavailable"}
	return map[string]layoutCase{
		"Machine v1beta2": {layout: contract.LayoutsOf(contract.V1Beta2).Machine, kind: "machines", version: "v1beta2", none: []string{
			"Bootstrap.APIVersion", "Bootstrap.Namespace", "Infrastructure.APIVersion", "Infrastructure.Namespace", "NodeKind", "NodeAPIVersion",
			"ProviderSpec", "Class.Group", "Class.APIVersion", "Class.Kind", "Class.Namespace", "Class.Name", "NodeLabels", "NodeAnnotations"}},
		"Machine v1beta1": {layout: contract.LayoutsOf(contract.V1Beta1).Machine, kind: "machines", version: "v1beta1", none: []string{
			"Bootstrap.Group", "Infrastructure.Group", "MinReady",
			"ProviderSpec", "Class.Group", "Class.APIVersion", "Class.Kind", "Class.Namespace", "Class.Name", "NodeLabels", "NodeAnnotations"}},
		"MachineSet v1beta2": {layout: contract.LayoutsOf(contract.V1Beta2).MachineSet, kind: "machinesets", version: "v1beta2",
			none: inTemplate(true)},
		"MachineSet v1beta1": {layout: contract.LayoutsOf(contract.V1Beta1).MachineSet, kind: "machinesets", version: "v1beta1",
			none: inTemplate(false)},
		"MachineDeployment v1beta2": {layout: contract.LayoutsOf(contract.V1Beta2).MachineDeployment,
			kind: "machinedeployments", version: "v1beta2",
			none: inTemplate(true, append(inGardener, "RevisionHistoryLimit", "ProgressDeadline")...)},
		"MachineDeployment v1beta1": {layout: contract.LayoutsOf(contract.V1Beta1).MachineDeployment,
			kind: "machinedeployments", version: "v1beta1",
			none: inTemplate(false, inGardener...)},
		"MachinePool v1beta2": {layout: contract.LayoutsOf(contract.V1Beta2).MachinePool, kind: "machinepools", version: "v1beta2",
			none: inTemplate(true, inPools...)},
		"MachinePool v1beta1": {layout: contract.LayoutsOf(contract.V1Beta1).MachinePool, kind: "machinepools", version: "v1beta1",
			none: inTemplate(false, inPools...)},
		"MachineHealthCheck v1beta2": {layout: contract.LayoutsOf(contract.V1Beta2).HealthCheck, kind: "machinehealthchecks", version: "v1beta2",
			none: []string{"Template.Group", "Template.Namespace"}},
		"MachineHealthCheck v1beta1": {layout: contract.LayoutsOf(contract.V1Beta1).HealthCheck, kind: "machinehealthchecks", version: "v1beta1",
			none: []string{"Template.Group"}},
		"Cluster v1beta2": {layout: contract.LayoutsOf(contract.V1Beta2).Cluster, kind: "clusters", version: "v1beta2",
			none: []string{"ControlPlane.APIVersion", "ControlPlane.Namespace"}},
		"Cluster v1beta1": {layout: contract.LayoutsOf(contract.V1Beta1).Cluster, kind: "clusters", version: "v1beta1",
			none: []string{"ControlPlaneInitialized", "ControlPlane.Group"}},
	}
}

// The API server prunes what the schema does not know: a value written there would be lost without an error.
func TestLayouts_EveryPlaceIsInClusterAPIsSchema(t *testing.T) {
	for name, c := range layoutCases() {
		schema := crdSchema(t, c.kind, c.version)
		for member, l := range leavesOf(t, "", reflect.ValueOf(c.layout).Elem()) {
			t.Run(name+"/"+member, func(t *testing.T) { isKept(t, schema, member, l, c.none) })
		}
	}
}

// isKept checks that an API server keeps what a field of a layout reads and writes.
func isKept(t *testing.T, schema *schemaNode, name string, l leaf, none []string) {
	t.Helper()
	typeName, paths := contract.Describe(l)
	require.Equal(t, slices.Contains(none, name), len(paths) == 0 && typeName != "content", "whether the layout has a place for it")
	for _, path := range paths {
		if key, ok := annotationKey(path); ok {
			require.True(t, strings.HasPrefix(key, "machinist.dev/"), "%s is not ours", key)
			require.Empty(t, apivalidation.ValidateAnnotations(map[string]string{key: ""}, nil))
			continue
		}
		node := schema.at(path.Segments()...)
		require.NotNil(t, node, "the API server would prune %s", path)
		fits(t, path.String(), node, typeName)
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
