package drain

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

func ruleObject(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	require.NoError(t, obj.UnmarshalJSON([]byte(`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineDrainRule",
		"metadata":{"namespace":"fleet","name":"r"},"spec":`+spec+`}`)))
	return obj
}

// complete has every field that a rule may have.
const complete = `{"drain":{"behavior":"Drain","order":-5},
	"machines":[{"selector":{"matchLabels":{"os":"linux"}},"clusterSelector":{"matchExpressions":[{"key":"stage","operator":"In","values":["production"]}]}}],
	"pods":[{"selector":{"matchExpressions":[{"key":"app","operator":"Exists"}]}},{"namespaceSelector":{"matchLabels":{"team":"web"}}}]}`

func TestReadDrainRule(t *testing.T) {
	obj := ruleObject(t, complete)
	before := obj.DeepCopy()
	got := ReadMachineDrainRules([]unstructured.Unstructured{*obj})
	want := drainRule{key: types.NamespacedName{Namespace: "fleet", Name: "r"}, machine: unclear}
	want.spec.Drain.Behavior, want.spec.Drain.Order = behaviorDrain, ptr.To[int32](-5)
	want.spec.Machines = []drainRuleEntry{{Selector: labelsAre("os", "linux"), ClusterSelector: expression("stage", "In", "production")}}
	want.spec.Pods = []drainRuleEntry{{Selector: expression("app", "Exists")}, {NamespaceSelector: labelsAre("team", "web")}}
	require.Equal(t, MachineDrainRules{want}, got)
	require.Equal(t, before, obj, "the object was changed")
	require.Empty(t, problemsOf(got))
}

// What cannot be read is named, and holds every pod.
func TestUnreadDrainRule(t *testing.T) {
	const field, skip = "spec: json: cannot unmarshal ", `{"drain":{"behavior":"Skip"},`
	const expr = `"pods":[{"selector":{"matchExpressions":[{"key":"a"`
	for name, tc := range map[string]struct{ spec, problem string }{ // the problem without the rule's name
		"an order of another type": {`{"drain":{"behavior":"Drain","order":"1"}}`,
			field + "string into Go struct field .drain.order of type int32"},
		"an order that is too large": {`{"drain":{"behavior":"Drain","order":2147483648}}`,
			field + "number 2147483648 into Go struct field .drain.order of type int32"},
		"a behavior of another type":     {`{"drain":{"behavior":1}}`, field + "number into Go struct field .drain.behavior"},
		"no behavior":                    {`{}`, `spec.drain.behavior: unknown behavior ""`},
		"a drain of another type":        {`{"drain":[]}`, field + "array into Go struct field"},
		"a spec of another type":         {`"x"`, field + "string into Go value"},
		"pods of another type":           {skip + `"pods":{}}`, field + "object into Go struct field"},
		"machines of another type":       {skip + `"machines":{}}`, field + "object into Go struct field"},
		"an entry of another type":       {skip + `"pods":[7]}`, field + "number into Go struct field"},
		"a label of another type":        {skip + `"pods":[{"selector":{"matchLabels":{"a":1}}}]}`, field + "number into Go struct field"},
		"an expression without operator": {skip + expr + `}]}}]}`, `spec.pods[0]: "" is not a valid label selector operator`},
		"an unknown operator":            {skip + expr + `,"operator":"in"}]}}]}`, `spec.pods[0]: "in" is not a valid label selector operator`},
		"an invalid key": {skip + `"pods":[{"selector":{"matchLabels":{"a b":"c"}}}]}`,
			`spec.pods[0]: key: Invalid value: "a b"`},
	} {
		t.Run(name, func(t *testing.T) {
			rules := ReadMachineDrainRules([]unstructured.Unstructured{*ruleObject(t, tc.spec)})
			problems := problemsOf(rules)
			require.Len(t, problems, 1)
			require.Contains(t, problems[0], "MachineDrainRule fleet/r: "+tc.problem)
			require.Equal(t, Deny, Decide(newPod("p"), ClusterAPIRules(rules.For(DrainedMachine{Namespace: "fleet"}), read)).Action)
		})
	}
	null := ReadMachineDrainRules([]unstructured.Unstructured{ // is absent, as Cluster API decodes it
		*ruleObject(t, `{"drain":{"behavior":"Skip","order":null},"machines":null,"pods":null}`)})
	require.Empty(t, problemsOf(null))
	require.Equal(t, Ignore, Decide(newPod("p"), ClusterAPIRules(null.For(DrainedMachine{Namespace: "fleet"}), read)).Action)
	require.Len(t, problemsOf(ReadMachineDrainRules([]unstructured.Unstructured{{}})), 1, "an object without fields has no behavior")
}

func FuzzReadMachineDrainRules(f *testing.F) {
	f.Add(complete)
	f.Add(`{"drain":{"behavior":"Skip"},"pods":[{"selector":{"matchExpressions":[{"key":"a","operator":"in"}]}}]}`)
	f.Fuzz(func(t *testing.T, spec string) {
		var content any
		if utiljson.Unmarshal([]byte(spec), &content) != nil { // integers stay integers
			return
		}
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
		rules := ReadMachineDrainRules([]unstructured.Unstructured{*obj})
		got := Decide(newPod("p"), ClusterAPIRules(rules.For(DrainedMachine{}), nil))
		if unread := strings.Contains(rules[0].problem, ": spec: "); unread && got.Action == Evict {
			t.Errorf("a rule that could not be read let a Pod go: %s", rules[0].problem)
		}
	})
}

// TestDrainRuleSchema guards against reading what the API server would prune.
func TestDrainRuleSchema(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1beta2"} {
		root := drainRuleSchema(t, version)
		for path, kind := range map[string]string{
			"spec.drain.behavior": "string", "spec.drain.order": "integer", "spec.machines": "array", "spec.pods": "array",
		} {
			require.Equal(t, kind, root.at(t, path).Type, "%s %s", version, path)
		}
		for _, at := range []string{"spec.machines.selector", "spec.machines.clusterSelector", "spec.pods.selector",
			"spec.pods.namespaceSelector"} {
			require.Equal(t, "object", root.at(t, at+".matchLabels").Type, "%s %s", version, at)
			for field, kind := range map[string]string{"key": "string", "operator": "string", "values": "array"} {
				require.Equal(t, kind, root.at(t, at+".matchExpressions."+field).Type, "%s %s %s", version, at, field)
			}
		}
		var behaviors []string
		for _, b := range []behavior{behaviorDrain, behaviorSkip, behaviorWaitCompleted} {
			behaviors = append(behaviors, string(b))
		}
		require.Equal(t, behaviors, root.at(t, "spec.drain.behavior").Enum, version)
	}
}

type schemaPart struct {
	Type       string                 `json:"type"`
	Enum       []string               `json:"enum"`
	Properties map[string]*schemaPart `json:"properties"`
	Items      *schemaPart            `json:"items"`
}

// at walks to a place; lists are walked through.
func (s *schemaPart) at(t *testing.T, path string) *schemaPart {
	t.Helper()
	for key := range strings.SplitSeq(path, ".") {
		if s.Items != nil {
			s = s.Items
		}
		s = s.Properties[key]
		require.NotNil(t, s, "the schema has no %s of %s", key, path)
	}
	return s
}

// drainRuleSchema reads Cluster API's own CRD. The module is not in go.mod, because it pins other versions of Kubernetes.
func drainRuleSchema(t *testing.T, version string) *schemaPart {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "sigs.k8s.io/cluster-api@v1.13.6")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, stderr.String())
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &module))
	content, err := os.ReadFile(filepath.Join(module.Dir, "config/crd/bases/cluster.x-k8s.io_machinedrainrules.yaml"))
	require.NoError(t, err)
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPIV3Schema *schemaPart `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(content, &crd))
	for _, v := range crd.Spec.Versions {
		if v.Name == version {
			return v.Schema.OpenAPIV3Schema
		}
	}
	t.Fatalf("no version %s", version)
	return nil
}
