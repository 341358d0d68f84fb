package contract_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
)

// The systems whose shapes are tables here. Neither is required by go.mod.
const (
	kubermaticModule = "k8c.io/machine-controller"
	kubermaticTypes  = kubermaticModule + "/pkg/apis/cluster/v1alpha1"
	gardenerModule   = "github.com/gardener/machine-controller-manager"
)

// foreignSchema is what judges the layout of a kind, by its plural, of another system; nil for a system that is none of these. Kubermatic's
// CRDs keep every field, but its controller writes objects of Go types back and so drops what these do not know: there the type judges.
func foreignSchema(t *testing.T, system, kind string) *schemaNode {
	t.Helper()
	switch system {
	case "Kubermatic":
		source := goSource{t: t, dir: moduleDir(t, kubermaticModule+"@v1.60.0"), packages: map[string]map[string]declaration{}}
		types := map[string]string{"machines": "Machine", "machinesets": "MachineSet", "machinedeployments": "MachineDeployment"}
		schema := source.named(kubermaticTypes, types[kind])
		if kind != "machines" { // the one place that only its CRD keeps
			schema.Properties["status"].Properties["conditions"] = reflected(reflect.TypeFor[[]metav1.Condition]())
		}
		return schema
	case "Gardener":
		file := "kubernetes/crds/machine.sapcloud.io_" + kind + ".yaml"
		schema := schemaIn(t, filepath.Join(moduleDir(t, gardenerModule+"@v0.60.0"), file), "v1alpha1")
		schema.Properties["metadata"] = labelled("node")
		return schema
	}
	return nil
}

// foreignLayout is a layout of another system, and the members of it that have no place.
type foreignLayout struct {
	system, kind string
	layout       any
	none         []string
}

func foreignLayouts() []foreignLayout {
	ref := func(name string, members ...string) []string {
		var none []string
		for _, member := range members {
			none = append(none, name+"."+member)
		}
		return none
	}
	all := []string{"Group", "APIVersion", "Kind", "Namespace", "Name"}
	spec := slices.Concat(ref("Bootstrap", all...), ref("Infrastructure", all...), []string{
		"ClusterName", "WantedFailureDomain", "NodeVolumeDetachTimeout", "NodeDeletionTimeout", "ReadinessGates"})
	kubermatic := append(slices.Clone(spec), "Class.Group", "NodeDrainTimeout")
	gardener := append(slices.Clone(spec), "Class.APIVersion", "Class.Namespace", "Version", "ProviderSpec")
	sets := func(template []string, more ...string) []string {
		more = append(more, "ClusterName", "SelectorText", "UpToDateReplicas", "MachineNaming", "Template.DataSecretName")
		return append(more, ref("Template", template...)...)
	}
	inKubermatic := sets(kubermatic, "ReadyReplicas", "AvailableReplicas")
	inGardener := sets(gardener, "NodeReadyReplicas", "NodeAvailableReplicas", "DeletionOrder")
	ofMachine := []string{"ObservedGeneration", "MinReady", "DrainStarted", "VolumeDetachStarted", "CertificatesExpire"}
	return []foreignLayout{
		{"Kubermatic", "machines", contract.KubermaticLayouts().Machine, append(kubermatic, ofMachine...)},
		{"Gardener", "machines", contract.GardenerLayouts().Machine, append(append(gardener, ofMachine...), "NodeKind", "NodeAPIVersion")},
		{"Kubermatic", "machinesets", contract.KubermaticLayouts().MachineSet, inKubermatic},
		{"Gardener", "machinesets", contract.GardenerLayouts().MachineSet, inGardener},
		{"Kubermatic", "machinedeployments", contract.KubermaticLayouts().MachineDeployment,
			append(inKubermatic, "DeletionOrder", "Phase", "RemediationMaxInFlight", "RolloutAfter", "InPlaceMaxSurge",
				"InPlaceMaxUnavailable")},
		{"Gardener", "machinedeployments", contract.GardenerLayouts().MachineDeployment,
			append(inGardener, "Phase", "RemediationMaxInFlight", "RolloutAfter", "AnnotatedRolloutType")},
	}
}

// labelled is metadata with one label that a layout may use: schemas of CRDs say nothing about metadata.
func labelled(key string) *schemaNode {
	return &schemaNode{Type: "object", Properties: map[string]*schemaNode{
		"labels": {Type: "object", Properties: map[string]*schemaNode{key: {Type: "string"}}},
	}}
}

func TestForeignLayouts_EveryPlaceIsKnownToTheOtherSystem(t *testing.T) {
	for _, c := range foreignLayouts() {
		schema := foreignSchema(t, c.system, c.kind)
		for member, l := range leavesOf(t, "", reflect.ValueOf(c.layout).Elem()) {
			t.Run(c.system+"/"+c.kind+"/"+member, func(t *testing.T) { isKept(t, schema, member, l, c.none) })
		}
	}
}

// goSource makes schemas of the Go types of a module, by their JSON tags. Only source is read: nothing of it is compiled.
type goSource struct {
	t        *testing.T
	dir      string
	packages map[string]map[string]declaration
}

// declaration is a type and what its file imports, by the name that it uses.
type declaration struct {
	expr    ast.Expr
	path    string
	imports map[string]string
}

// apimachineryTypes are those that the source uses from packages which this module requires too.
func apimachineryTypes() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, value := range []any{corev1.ObjectReference{}, corev1.NodeAddress{}, corev1.NodeCondition{}, corev1.Taint{},
		corev1.NodeConfigSource{}, metav1.LabelSelector{}, intstr.IntOrString{},
		metav1.Time{}, metav1.TypeMeta{}, metav1.ObjectMeta{}, runtime.RawExtension{}} {
		of := reflect.TypeOf(value)
		types[of.PkgPath()+"."+of.Name()] = of
	}
	return types
}

func (s goSource) named(path, name string) *schemaNode {
	if of, known := apimachineryTypes()[path+"."+name]; known {
		return reflected(of)
	}
	found, known := s.declarations(path)[name]
	require.True(s.t, known, "%s has no type %s", path, name)
	return s.schema(found, found.expr)
}

func (s goSource) schema(in declaration, expr ast.Expr) *schemaNode {
	switch of := expr.(type) {
	case *ast.StarExpr:
		return s.schema(in, of.X)
	case *ast.ArrayType:
		return &schemaNode{Type: "array", Items: s.schema(in, of.Elt)}
	case *ast.SelectorExpr:
		return s.named(in.imports[of.X.(*ast.Ident).Name], of.Sel.Name)
	case *ast.StructType:
		node := &schemaNode{Type: "object", Properties: map[string]*schemaNode{}}
		for _, field := range of.Fields.List {
			require.NotNil(s.t, field.Tag, "a field of %s without a tag", in.path)
			tag, err := strconv.Unquote(field.Tag.Value)
			require.NoError(s.t, err)
			node.add(reflect.StructTag(tag), s.schema(in, field.Type))
		}
		return node
	case *ast.Ident:
		if scalar := scalarSchema(of.Name); scalar != nil {
			return scalar
		}
		return s.named(in.path, of.Name)
	}
	s.t.Fatalf("%s: a type that the test does not know: %T", in.path, expr)
	return nil
}

// add takes a field over; the fields of an inlined one become its own.
func (n *schemaNode) add(tag reflect.StructTag, field *schemaNode) {
	name, options, _ := strings.Cut(tag.Get("json"), ",")
	if name == "" && strings.Contains(options, "inline") {
		maps.Copy(n.Properties, field.Properties)
		return
	}
	n.Properties[name] = field
}

func scalarSchema(goType string) *schemaNode {
	switch goType {
	case "string":
		return &schemaNode{Type: "string"}
	case "bool":
		return &schemaNode{Type: "boolean"}
	case "int32", "int64":
		return &schemaNode{Type: "integer"}
	}
	return nil
}

func (s goSource) declarations(path string) map[string]declaration {
	if known, parsed := s.packages[path]; parsed {
		return known
	}
	found := map[string]declaration{}
	s.packages[path] = found
	files, err := filepath.Glob(filepath.Join(s.dir, strings.TrimPrefix(path, kubermaticModule), "*.go"))
	require.NoError(s.t, err)
	require.NotEmpty(s.t, files, "no source of %s", path)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(s.t, err)
		imports := map[string]string{}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(s.t, err)
			name := imported[strings.LastIndex(imported, "/")+1:]
			if spec.Name != nil {
				name = spec.Name.Name
			}
			imports[name] = imported
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				found[spec.Name.Name] = declaration{expr: spec.Type, path: path, imports: imports}
			}
			return true
		})
	}
	return found
}

// reflected is the schema of a type that can be compiled here.
func reflected(of reflect.Type) *schemaNode {
	switch of {
	case reflect.TypeFor[metav1.Time]():
		return &schemaNode{Type: "string", Format: "date-time"}
	case reflect.TypeFor[intstr.IntOrString]():
		return &schemaNode{IntOrText: true}
	case reflect.TypeFor[runtime.RawExtension]():
		return &schemaNode{Type: "object", Preserve: true}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return reflected(of.Elem())
	case reflect.Slice:
		return &schemaNode{Type: "array", Items: reflected(of.Elem())}
	case reflect.Map:
		return &schemaNode{Type: "object", Preserve: true}
	case reflect.Struct:
		node := &schemaNode{Type: "object", Properties: map[string]*schemaNode{}}
		for field := range of.Fields() {
			node.add(field.Tag, reflected(field.Type))
		}
		return node
	default:
		return scalarSchema(of.Kind().String())
	}
}
