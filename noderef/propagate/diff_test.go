package propagate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// everything is Cluster API's policy for an owner that propagates all labels and annotations.
func everything() *Policy {
	p := ClusterAPI()
	all := []*regexp.Regexp{regexp.MustCompile("")}
	p.Labels, p.Annotations = all, all
	return p
}

var uninitialized = corev1.Taint{Key: UninitializedTaintKey, Effect: UninitializedTaintEffect}

func newNode(labels, annotations map[string]string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: "test://1", Taints: taints},
	}
}

// apply does what the API server does with a JSON Patch, with the library it uses.
func apply(t *testing.T, node *corev1.Node, patch []byte) (*corev1.Node, error) {
	t.Helper()
	document, err := json.Marshal(node)
	require.NoError(t, err)
	decoded, err := jsonpatch.DecodePatch(patch)
	require.NoError(t, err, string(patch))
	patched, err := decoded.Apply(document)
	if err != nil {
		return nil, err
	}
	result := &corev1.Node{}
	require.NoError(t, json.Unmarshal(patched, result))
	return result, nil
}

type m = map[string]string

func TestDiff(t *testing.T) {
	policy := everything()
	notReady := corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}
	cases := []struct {
		name            string
		node            *corev1.Node
		desired         Desired
		wantLabels      m
		wantAnnotations m
		wantTaints      []corev1.Taint
	}{
		{
			name:       "a fresh Node gets everything in one patch",
			node:       newNode(nil, nil, notReady, uninitialized),
			desired:    Desired{Labels: m{"d/b": "2", "d/a": "1"}, Annotations: m{"d/x": ""}, Owner: Owner{Name: "m"}},
			wantLabels: m{"d/a": "1", "d/b": "2"},
			wantAnnotations: m{
				"d/x": "", LabelsFromMachineAnnotation: "d/a,d/b", AnnotationsFromMachineAnnotation: "d/x", TaintsFromMachineAnnotation: "",
				MachineAnnotation: "m",
			},
			wantTaints: []corev1.Taint{notReady},
		},
		{
			name: "a value that was there before is remembered too", node: newNode(m{"d/a": "1", "other": "x"}, nil),
			desired: Desired{Labels: m{"d/a": "1"}}, wantLabels: m{"d/a": "1", "other": "x"},
			wantAnnotations: m{LabelsFromMachineAnnotation: "d/a", TaintsFromMachineAnnotation: ""},
		},
		{
			name:    "what was remembered and is not wanted goes, and nothing else",
			node:    newNode(m{"d/a": "1", "d/b": "2", "other": "x"}, m{LabelsFromMachineAnnotation: "d/a,d/b", "other": "x"}),
			desired: Desired{Labels: m{"d/b": "2"}}, wantLabels: m{"d/b": "2", "other": "x"},
			wantAnnotations: m{LabelsFromMachineAnnotation: "d/b", "other": "x"},
		},
		{
			name: "the last label goes", node: newNode(m{"d/a": "1"}, m{LabelsFromMachineAnnotation: "d/a"}), wantLabels: m{},
			wantAnnotations: m{LabelsFromMachineAnnotation: ""},
		},
		{
			name: "a remembered key that is gone already is only forgotten",
			node: newNode(m{"other": "x"}, m{LabelsFromMachineAnnotation: "d/a,,d/a"}), wantLabels: m{"other": "x"},
			wantAnnotations: m{LabelsFromMachineAnnotation: ""},
		},
		{
			name: "a key that is listed twice is removed once", node: newNode(m{"d/a": "1"}, m{LabelsFromMachineAnnotation: "d/a,d/a"}),
			wantLabels: m{}, wantAnnotations: m{LabelsFromMachineAnnotation: ""},
		},
		{
			name: "the Machine overrides a value of another writer", node: newNode(m{"d/a": "theirs"}, nil),
			desired: Desired{Labels: m{"d/a": "ours"}}, wantLabels: m{"d/a": "ours"},
			wantAnnotations: m{LabelsFromMachineAnnotation: "d/a", TaintsFromMachineAnnotation: ""},
		},
		{
			name:    "a Machine that loses its controller loses the owner annotations",
			node:    newNode(nil, m{MachineAnnotation: "m", OwnerKindAnnotation: "MachineSet", OwnerNameAnnotation: "s"}),
			desired: Desired{Owner: Owner{Name: "m", Cluster: "c", Namespace: "ns"}},
			wantAnnotations: m{
				MachineAnnotation: "m", ClusterNameAnnotation: "c", ClusterNamespaceAnnotation: "ns", TaintsFromMachineAnnotation: "",
			},
		},
		{
			name: "without an owner its annotations are left alone", node: newNode(nil, m{MachineAnnotation: "theirs"}),
			desired:         Desired{Annotations: m{"d/x": "1"}},
			wantAnnotations: m{MachineAnnotation: "theirs", "d/x": "1", AnnotationsFromMachineAnnotation: "d/x", TaintsFromMachineAnnotation: ""},
		},
		{
			name: "our own annotations cannot be desired, nor removed through the list",
			node: newNode(m{"l": "1"}, m{AnnotationsFromMachineAnnotation: MachineAnnotation + "," + LabelsFromMachineAnnotation,
				MachineAnnotation: "m", LabelsFromMachineAnnotation: "l"}),
			desired:         Desired{Labels: m{"l": "1"}, Annotations: m{MachineAnnotation: "x", LabelsFromMachineAnnotation: "y"}},
			wantLabels:      m{"l": "1"},
			wantAnnotations: m{AnnotationsFromMachineAnnotation: "", MachineAnnotation: "m", LabelsFromMachineAnnotation: "l"},
		},
		{
			name: "only the one taint goes",
			node: newNode(nil, nil, corev1.Taint{Key: UninitializedTaintKey, Effect: corev1.TaintEffectNoExecute},
				uninitialized, notReady),
			wantAnnotations: m{TaintsFromMachineAnnotation: ""},
			wantTaints:      []corev1.Taint{{Key: UninitializedTaintKey, Effect: corev1.TaintEffectNoExecute}, notReady},
		},
		{
			name:    "keys and values with special characters survive",
			node:    newNode(m{"x": "1"}, m{"a~1b/c": "<&>\u2028\"\\", "a/~0": "1", AnnotationsFromMachineAnnotation: "a/~0,a~1b/c"}),
			desired: Desired{Annotations: m{"a~1b/c": "{\"k\":[null]}"}}, wantLabels: m{"x": "1"},
			wantAnnotations: m{"a~1b/c": "{\"k\":[null]}", AnnotationsFromMachineAnnotation: "a~1b/c"},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.node.DeepCopy()
			patch, changed := policy.Diff(tc.node, tc.desired)
			require.True(t, changed)
			require.Equal(t, before, tc.node, "the Node is only read")

			got, err := apply(t, tc.node, patch.JSON())
			require.NoError(t, err, patch.String())
			want := newNode(tc.wantLabels, tc.wantAnnotations, tc.wantTaints...)
			if diff := cmp.Diff(want, got, equalEmpty); diff != "" {
				t.Errorf("patched Node (-want +got):\n%s\n%s", diff, patch)
			}
			_, again := policy.Diff(got, tc.desired)
			require.False(t, again, "a second pass finds nothing to do")
		})
	}
}

func TestDiffReturnsNothingForAnUpToDateNode(t *testing.T) {
	policy := everything()
	owner := Owner{Cluster: "c", Namespace: "ns", Name: "m"}
	annotated := m{ClusterNameAnnotation: "c", ClusterNamespaceAnnotation: "ns", MachineAnnotation: "m", "other": "x"}
	with := func(extra m) m {
		all := m{}
		maps.Copy(all, annotated)
		maps.Copy(all, extra)
		return all
	}
	cases := []struct {
		name    string
		node    *corev1.Node
		desired Desired
	}{
		{"nothing wanted and nothing there", newNode(nil, nil), Desired{}},
		{"a Machine without labels and without a controller", newNode(m{"x": "1"}, annotated), Desired{Owner: owner}},
		{
			"a Node that Cluster API has written to, with its empty lists",
			newNode(m{"x": "1"}, with(m{LabelsFromMachineAnnotation: "", AnnotationsFromMachineAnnotation: ""})),
			Desired{Owner: owner},
		},
		{
			"all values and both lists are there",
			newNode(m{"d/b": "2", "d/a": "1", "x": "1"},
				with(m{LabelsFromMachineAnnotation: "d/a,d/b", AnnotationsFromMachineAnnotation: "d/x", "d/x": "1"})),
			Desired{Labels: m{"d/a": "1", "d/b": "2"}, Annotations: m{"d/x": "1"}, Owner: owner},
		},
		{"taints of others", newNode(nil, nil, corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule}), Desired{}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			patch, changed := policy.Diff(tc.node, tc.desired)
			require.False(t, changed, patch.String())
			require.Equal(t, "[]", patch.String())
		})
	}
}

func TestThePatchTestsOnlyWhatTheDecisionDependsOn(t *testing.T) {
	gpu := corev1.Taint{Key: "gpu", Value: "old", Effect: corev1.TaintEffectNoExecute}
	node := newNode(m{"d/a": "1", "d/c": "3"}, m{LabelsFromMachineAnnotation: "d/a"}, uninitialized, gpu)
	patch, _ := everything().Diff(node, Desired{
		Labels: m{"d/b": "2", "d/c": "4"},
		Taints: []Taint{{Taint: corev1.Taint{Key: "gpu", Value: "new", Effect: corev1.TaintEffectNoExecute}},
			{Taint: corev1.Taint{Key: "x", Effect: "NoSchedule"}}},
	})
	want := `[{"op":"test","path":"/metadata/uid","value":"u"},` +
		`{"op":"remove","path":"/metadata/labels/d~1a"},` +
		`{"op":"add","path":"/metadata/labels/d~1b","value":"2"},` +
		`{"op":"add","path":"/metadata/labels/d~1c","value":"4"},` +
		`{"op":"test","path":"/metadata/annotations/cluster.x-k8s.io~1labels-from-machine","value":"d/a"},` +
		`{"op":"add","path":"/metadata/annotations/cluster.x-k8s.io~1labels-from-machine","value":"d/b,d/c"},` +
		`{"op":"test","path":"/metadata/annotations/cluster.x-k8s.io~1taints-from-machine","value":null},` +
		`{"op":"add","path":"/metadata/annotations/cluster.x-k8s.io~1taints-from-machine","value":"gpu:NoExecute,x:NoSchedule"},` +
		`{"op":"test","path":"/spec/taints/1/key","value":"gpu"},` +
		`{"op":"test","path":"/spec/taints/1/effect","value":"NoExecute"},` +
		`{"op":"add","path":"/spec/taints/1/value","value":"new"},` +
		`{"op":"test","path":"/spec/taints/0/key","value":"node.cluster.x-k8s.io/uninitialized"},` +
		`{"op":"test","path":"/spec/taints/0/effect","value":"NoSchedule"},` +
		`{"op":"remove","path":"/spec/taints/0"},` +
		`{"op":"add","path":"/spec/taints/-","value":{"key":"x","effect":"NoSchedule"}}]`
	if diff := cmp.Diff(want, patch.String()); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}

func TestAMissingMapOrListIsCreatedOnlyIfItIsStillMissing(t *testing.T) {
	patch, _ := everything().Diff(newNode(nil, nil),
		Desired{Labels: m{"a": "1"}, Taints: []Taint{{Taint: corev1.Taint{Key: "x", Effect: "NoSchedule"}}}})
	for name, meanwhile := range map[string]*corev1.Node{
		"labels":      newNode(m{"theirs": "1"}, nil),
		"annotations": newNode(nil, m{"theirs": "1"}),
		"taints":      newNode(nil, nil, corev1.Taint{Key: "theirs", Effect: "NoSchedule"}),
	} {
		_, err := apply(t, meanwhile, patch.JSON())
		require.Error(t, err, name)
	}
}

// The patch tests what the decision depends on: the ledger.
func TestAPatchIsRejectedIfWhatTheDecisionDependsOnChanged(t *testing.T) {
	cases := []struct {
		name            string
		policy          *Policy
		node, meanwhile *corev1.Node
	}{
		{"the ledger changes", everything(), newNode(nil, m{LabelsFromMachineAnnotation: "b"}),
			newNode(nil, m{LabelsFromMachineAnnotation: "a"})},
		{"the ledger appears", everything(), newNode(nil, m{"x": "1"}), newNode(nil, m{"x": "1", LabelsFromMachineAnnotation: "a"})},
		{"a key that is to be removed is gone", everything(), newNode(m{"b": "1"}, m{LabelsFromMachineAnnotation: "a,b"}),
			newNode(m{"c": "1"}, m{LabelsFromMachineAnnotation: "a,b"})},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			patch, changed := tc.policy.Diff(tc.node, Desired{Labels: m{"a": "1"}})
			require.True(t, changed)
			_, err := apply(t, tc.node, patch.JSON())
			require.NoError(t, err, patch.String())
			_, err = apply(t, tc.meanwhile, patch.JSON())
			require.Error(t, err, patch.String())
		})
	}
}

// A value that the owner overrides anyway is not tested: the next patch would be the same.
func TestWritersOfTheSameKeysCauseNoRejection(t *testing.T) {
	node := newNode(m{"x": "1", "d/a": "old"}, m{"y": "1"}, uninitialized)
	desired := Desired{Labels: m{"d/a": "1", "d/b": "2"}, Owner: Owner{Name: "m"}}
	patch, _ := everything().Diff(node, desired)
	meanwhile := newNode(m{"d/a": "theirs", "d/b": "theirs"}, m{"z": "1", MachineAnnotation: "theirs"}, uninitialized)
	got, err := apply(t, meanwhile, patch.JSON())
	require.NoError(t, err, patch.String())
	want := newNode(m{"d/a": "1", "d/b": "2"}, m{
		"z": "1", MachineAnnotation: "m", LabelsFromMachineAnnotation: "d/a,d/b", TaintsFromMachineAnnotation: "",
	})
	require.Empty(t, cmp.Diff(want, got, equalEmpty))
}

// The patches depend on this behaviour of the API server's library.
func TestTheLibraryTreatsAnAbsentValueAsNull(t *testing.T) {
	cases := []struct {
		name, document, path string
		pass                 bool
	}{
		{"an absent key", `{"metadata":{"labels":{"x":"1"}}}`, "/metadata/labels/a", true},
		{"an absent map", `{"metadata":{}}`, "/metadata/labels", true},
		{"a present key", `{"metadata":{"labels":{"a":""}}}`, "/metadata/labels/a", false},
		{"an empty map", `{"metadata":{"labels":{}}}`, "/metadata/labels", false},
		{"a key in an absent map", `{"metadata":{}}`, "/metadata/labels/a", false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			patch, err := jsonpatch.DecodePatch(fmt.Appendf(nil, `[{"op":"test","path":%q,"value":null}]`, tc.path))
			require.NoError(t, err)
			_, err = patch.Apply([]byte(tc.document))
			if pass := err == nil; pass != tc.pass {
				t.Errorf("passes = %v, want %v (%v)", pass, tc.pass, err)
			}
		})
	}
}

func TestRejected(t *testing.T) {
	gr := schema.GroupResource{Resource: "nodes"}
	failedTest := apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "test failed", 0, false)
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n",
		field.ErrorList{field.Invalid(field.NewPath("metadata", "labels"), "x y", "bad")})
	cases := []struct {
		name string
		err  error
		want bool
	}{
		{"a test of the patch failed", failedTest, true},
		{"the same, wrapped", fmt.Errorf("patching Node n: %w", failedTest), true},
		{"the patched Node is invalid", invalid, false},
		{"another writer added the same taint", apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n",
			field.ErrorList{field.Duplicate(field.NewPath("metadata", "taints").Index(2), "x")}), true},
		{"two taints are the same, and a label is wrong", apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", field.ErrorList{
			field.Duplicate(field.NewPath("metadata", "taints").Index(2), "x"), field.Invalid(field.NewPath("metadata", "labels"), "x y", "bad"),
		}), false},
		{"another thing is there twice", apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n",
			field.ErrorList{field.Duplicate(field.NewPath("spec", "podCIDRs").Index(1), "x")}), false},
		{"a taint is invalid", apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n",
			field.ErrorList{field.Invalid(field.NewPath("metadata", "taints").Index(2), "x y", "bad")}), false},
		{"the answer names no fault", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid}}, true},
		{"a conflict", apierrors.NewConflict(gr, "n", errors.New("x")), false},
		{"not found", apierrors.NewNotFound(gr, "n"), false},
		{"another error", errors.New("x"), false},
		{"no error", nil, false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, Rejected(tc.err))
		})
	}
}

func BenchmarkDiff(b *testing.B) {
	desired := Desired{
		Labels:      m{"node-role.kubernetes.io/worker": "", "node.cluster.x-k8s.io/a": "1", "node.cluster.x-k8s.io/b": "2"},
		Annotations: m{"node.cluster.x-k8s.io/x": "1"},
		Owner:       Owner{Cluster: "c", Namespace: "ns", Name: "m", ControllerKind: "MachineSet", ControllerName: "s"},
	}
	policy := ClusterAPI()
	fresh := newNode(m{"kubernetes.io/hostname": "n"}, m{"other": "x"}, uninitialized)
	patch, _ := policy.Diff(fresh, desired)
	document, _ := json.Marshal(fresh)
	decoded, _ := jsonpatch.DecodePatch(patch.JSON())
	patched, _ := decoded.Apply(document)
	done := &corev1.Node{}
	require.NoError(b, json.Unmarshal(patched, done))

	b.Run("unchanged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			policy.Diff(done, desired)
		}
	})
	b.Run("fresh", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, _ := policy.Diff(fresh, desired)
			p.JSON()
		}
	})
}
