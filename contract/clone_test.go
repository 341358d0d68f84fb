package contract_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

const bareTemplate = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"TestMachineTemplate",
	"metadata":{"namespace":"default","name":"workers","uid":"u","resourceVersion":"7","labels":{"of":"the template itself"}}`

// template returns a template whose spec is the given JSON text.
func template(t testing.TB, spec string) *unstructured.Unstructured {
	t.Helper()
	return parseObject(t, bareTemplate+`,"spec":`+spec+`}`)
}

const clonedFrom = `"cluster.x-k8s.io/cloned-from-name":"workers",
	"cluster.x-k8s.io/cloned-from-groupkind":"TestMachineTemplate.infrastructure.cluster.x-k8s.io"`

func TestFromTemplate_MakesTheObjectThatTheContractDescribes(t *testing.T) {
	owner := &metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "set", UID: "s", Controller: new(true)}
	for name, c := range map[string]struct {
		spec  string
		clone contract.Clone
		want  string // without apiVersion and kind
	}{
		"a body, and a name": {
			spec:  `{"template":{"spec":{"size":"large","disks":[{"gb":100}],"spot":null,"share":0.5}},"other":"stays behind"}`,
			clone: contract.Clone{Name: "w-1", Namespace: "default"},
			want: `{"metadata":{"name":"w-1","namespace":"default","annotations":{` + clonedFrom + `}},
				"spec":{"size":"large","disks":[{"gb":100}],"spot":null,"share":0.5}}`,
		},
		"nothing at all in the template": {
			spec: `{}`, clone: contract.Clone{Name: "w-1"}, want: `{"metadata":{"name":"w-1","annotations":{` + clonedFrom + `}}}`,
		},
		"nulls in the template": {
			spec: `{"template":{"metadata":{"labels":null,"annotations":null},"spec":null}}`, clone: contract.Clone{Name: "w-1"},
			want: `{"metadata":{"name":"w-1","annotations":{` + clonedFrom + `}},"spec":null}`,
		},
		"of the template's metadata only labels and annotations count": {
			spec: `{"template":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n","generateName":"g-","namespace":"kube-system","uid":"u",
				"selfLink":"/x","resourceVersion":"9","generation":4,"creationTimestamp":"2026-03-01T12:00:00Z","finalizers":["f"],
				"deletionTimestamp":"2026-03-01T12:00:00Z","deletionGracePeriodSeconds":0,"managedFields":[{}],
				"ownerReferences":[{"kind":"Cluster"}],"labels":{"a":"b"},"annotations":{"c":"d"}},
				"spec":{"x":1},"status":{"ready":true},"data":{"y":"z"}}}`,
			clone: contract.Clone{Name: "w-1", Namespace: "default"},
			want: `{"metadata":{"name":"w-1","namespace":"default","labels":{"a":"b"},"annotations":{"c":"d",` + clonedFrom + `}},
				"spec":{"x":1},"data":{"y":"z"}}`,
		},
		"the caller wins over the template, and the contract over both": {
			spec: `{"template":{"metadata":{"labels":{"a":"template","b":"template","cluster.x-k8s.io/cluster-name":"template"},
				"annotations":{"c":"template","cluster.x-k8s.io/cloned-from-name":"template"}}}}`,
			clone: contract.Clone{
				Name: "w-1", Namespace: "default", ClusterName: "demo", Owner: owner,
				Labels:      map[string]string{"b": "caller", contract.ClusterNameLabel: "caller"},
				Annotations: map[string]string{"c": "caller", contract.ClonedFromGroupKindAnnotation: "caller"},
			},
			want: `{"metadata":{"name":"w-1","namespace":"default",
				"labels":{"a":"template","b":"caller","cluster.x-k8s.io/cluster-name":"demo"},
				"annotations":{"c":"caller",` + clonedFrom + `},
				"ownerReferences":[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineSet","name":"set","uid":"s","controller":true}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			from := template(t, c.spec)
			before := from.DeepCopy()
			got, err := contract.FromTemplate(from, c.clone)
			require.NoError(t, err)
			want := parseJSON(t, c.want)
			want["apiVersion"], want["kind"] = "infrastructure.cluster.x-k8s.io/v1beta2", "TestMachine"
			if diff := cmp.Diff(want, got.Object); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			again, err := contract.FromTemplate(from, c.clone)
			require.NoError(t, err)
			require.Equal(t, got, again, "nothing is left to chance")
			require.Equal(t, before, from, "the template was changed")
		})
	}
}

func TestFromTemplate_SharesNothing(t *testing.T) {
	from := template(t, `{"template":{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}},
		"spec":{"disks":[{"gb":100,"tags":["x"]}],"net":{"zone":{"name":"a"}}},"data":{"y":"z"}}}`)
	before := from.DeepCopy()
	clone := contract.Clone{
		Name: "w-1", Namespace: "default", ClusterName: "demo",
		Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"n": "1"},
		Owner: &metav1.OwnerReference{APIVersion: "v1", Kind: "K", Name: "n", UID: "u", Controller: new(true)},
	}
	made, err := contract.FromTemplate(from, clone)
	require.NoError(t, err)
	scribble(made.Object)
	require.Empty(t, cmp.Diff(before.Object, from.Object), "the object shares memory with the cached template")
	require.Equal(t, contract.Clone{
		Name: "w-1", Namespace: "default", ClusterName: "demo",
		Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"n": "1"},
		Owner: &metav1.OwnerReference{APIVersion: "v1", Kind: "K", Name: "n", UID: "u", Controller: new(true)},
	}, clone, "the object shares memory with the caller")
}

// scribble changes every value in place.
func scribble(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			scribble(inner)
			value[key] = "scribbled"
		}
		value["scribbled"] = true
	case []any:
		for i, inner := range value {
			scribble(inner)
			value[i] = "scribbled"
		}
	}
}

func TestFromTemplate_Refuses(t *testing.T) {
	named, other := contract.Clone{Name: "w-1"}, contract.ErrNotATemplate
	for name, c := range map[string]struct {
		template *unstructured.Unstructured
		clone    contract.Clone
		is       error
		at       string
	}{
		"no name":                   {template(t, `{}`), contract.Clone{}, contract.ErrNoCloneName, "TestMachineTemplate default/workers"},
		"no template":               {nil, named, other, "an object without a kind"},
		"an empty object":           {&unstructured.Unstructured{}, named, other, "an object without a kind"},
		"an object of another kind": {parseObject(t, `{"apiVersion":"g/v1","kind":"TestMachine","metadata":{"name":"m"}}`), named, other, "TestMachine m"},
		"a kind that is the suffix": {parseObject(t, `{"apiVersion":"g/v1","kind":"Template","metadata":{"name":"m"}}`), named, other, "Template m"},
		"no API version":            {parseObject(t, `{"apiVersion":"a/b/c","kind":"XTemplate","metadata":{"name":"m"}}`), named, other, `"a/b/c"`},
		"a template without a name": {parseObject(t, `{"apiVersion":"g/v1","kind":"XTemplate","metadata":[]}`), named, other, "no name"},
		"a spec of another type":    {template(t, `[]`), named, contract.ErrWrongType, "spec: want object, found list"},
		"a body of another type":    {template(t, `{"template":"x"}`), named, contract.ErrWrongType, "spec.template: want object"},
		"metadata of another type":  {template(t, `{"template":{"metadata":7}}`), named, contract.ErrWrongType, "spec.template.metadata: want object"},
		"labels of another type":    {template(t, `{"template":{"metadata":{"labels":[]}}}`), named, contract.ErrWrongType, ".metadata.labels: want object"},
		"annotations that are no texts": {template(t, `{"template":{"metadata":{"annotations":{"a":"","c":1,"b":null}}}}`), named,
			contract.ErrWrongType, ".metadata.annotations.b: want string, found null"},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := contract.FromTemplate(c.template, c.clone)
			require.Nil(t, made)
			require.ErrorIs(t, err, c.is)
			require.ErrorContains(t, err, c.at)
		})
	}
}

// apimachinery's copy panics on an int, which an object that was written by hand easily holds.
func TestFromTemplate_ReportsWhatIsNoJSONContent(t *testing.T) {
	from := template(t, `{"template":{"spec":{"disks":[{"gb":1}]}}}`)
	require.NoError(t, unstructured.SetNestedField(from.Object, json.Number("7"), "spec", "template", "spec", "count"))
	disk := from.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["disks"].([]any)[0].(map[string]any)
	disk["gb"] = 100
	_, err := contract.FromTemplate(from, contract.Clone{Name: "w-1"})
	require.EqualError(t, err, "make an object from TestMachineTemplate default/workers: spec.template.spec.disks.0.gb: "+
		"want JSON content (integers as int64), found int")
	disk["gb"] = int64(100)
	made, err := contract.FromTemplate(from, contract.Clone{Name: "w-1"})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(from.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"], made.Object["spec"]))
}

func FuzzClone(f *testing.F) {
	seeds(f)
	for _, text := range []string{
		bareTemplate + `}`, bareTemplate + `,"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"x":[1,null,{"y":2.5}]},"status":1}}}`,
		bareTemplate + `,"spec":{"template":{"metadata":{"annotations":{"a":1}}}}}`, bareTemplate + `,"spec":{"template":[]}}`,
		`{"apiVersion":"g/v1","kind":"Template","metadata":{"name":7}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		content := anyObject(text)
		from := &unstructured.Unstructured{Object: content}
		checkClone(t, from)
		if content == nil {
			return
		}
		maps.Copy(content, map[string]any{ // so that most inputs get beyond the header
			"apiVersion": "g/v1", "kind": "XTemplate", "metadata": map[string]any{"name": "t"},
		})
		checkClone(t, from)
	})
}

func checkClone(t *testing.T, from *unstructured.Unstructured) {
	t.Helper()
	before := from.DeepCopy()
	made, err := contract.FromTemplate(from, contract.Clone{Name: "w-1", Namespace: "default", ClusterName: "demo"})
	require.Empty(t, cmp.Diff(before.Object, from.Object), "the template was changed")
	if err != nil {
		require.ErrorContains(t, err, "make an object from ")
		return
	}
	require.Equal(t, strings.TrimSuffix(from.GetKind(), contract.TemplateSuffix), made.GetKind())
	require.Equal(t, from.GetAPIVersion(), made.GetAPIVersion())
	require.Equal(t, "w-1", made.GetName())
	require.Equal(t, "demo", made.GetLabels()[contract.ClusterNameLabel])
	require.Equal(t, from.GetName(), made.GetAnnotations()[contract.ClonedFromNameAnnotation])
	want, _, err := unstructured.NestedFieldNoCopy(from.Object, "spec", "template", "spec")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, made.Object["spec"]))
	scribble(made.Object)
	require.Empty(t, cmp.Diff(before.Object, from.Object), "the object shares memory with the template")
}
