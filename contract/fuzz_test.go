package contract_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/machinist-dev/machinist/contract"
)

// anyObject is what a fuzzed text decodes to, nil when that is no JSON object.
func anyObject(text []byte) map[string]any {
	var content map[string]any
	if err := utiljson.Unmarshal(text, &content); err != nil {
		return nil
	}
	return content
}

func seeds(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, `[]`, `{"spec":null}`, `{"status":[]}`, `{"metadata":{"annotations":{"machinist.dev/node-uid":7}}}`,
		`{"metadata":{"labels":{"a":1},"finalizers":"x","ownerReferences":[null],"creationTimestamp":1,"deletionTimestamp":"x"}}`,
		`{"status":{"conditions":[null,{"type":[]},{"type":"Ready","status":1}],"v1beta2":{"conditions":[{"type":"Ready"}]}}}`,
		`{"status":{"addresses":[{"type":"Hostname"}],"observedGeneration":1e300,"conditions":{"a":1}}}`,
		fullMachine, provisionedMachine,
	} {
		f.Add([]byte(text))
	}
}

func FuzzFieldGet(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		obj := anyObject(text)
		before := runtime.DeepCopyJSON(obj)
		fuzzField(t, obj, contract.At[string]("status", "phase"))
		fuzzField(t, obj, contract.At[bool]("status", "initialization", "provisioned"))
		fuzzField(t, obj, contract.At[int32]("spec", "n"))
		fuzzField(t, obj, contract.At[int64]("status", "observedGeneration"))
		fuzzField(t, obj, contract.AtAnnotation[string](contract.NodeUIDAnnotation))
		fuzzField(t, obj, contract.AtAnnotation[int32](contract.NodeUIDAnnotation))
		require.Empty(t, cmp.Diff(before, obj), "Get changed the object")
	})
}

// fuzzField checks that a read is a value, absent, or a wrong type, and that a value that was set is read back.
func fuzzField[T contract.Scalar](t *testing.T, obj map[string]any, f contract.Field[T]) {
	t.Helper()
	value, found, err := f.Get(obj)
	var none T
	if err != nil {
		require.ErrorIs(t, err, contract.ErrWrongType)
	}
	if !found && value != none || found && err != nil {
		t.Fatalf("%s: %v, found=%v, %v", f.Path(), value, found, err)
	}
	if obj == nil {
		return
	}
	changed := runtime.DeepCopyJSON(obj)
	if f.Set(changed, value) != nil {
		return
	}
	back, found, err := f.Get(changed)
	if back != value || !found || err != nil {
		t.Fatalf("%s: wrote %v, read back %v, found=%v, %v", f.Path(), value, back, found, err)
	}
	require.NoError(t, f.Clear(changed))
	_, found, err = f.Get(changed)
	require.NoError(t, err)
	require.False(t, found)
}

func FuzzProviderObjectRead(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		obj := &unstructured.Unstructured{Object: anyObject(text)}
		before := obj.DeepCopy()
		for _, v := range contract.Versions() {
			if err := contract.InfraMachine(v).Read(obj, &contract.InfraMachineState{}); err != nil {
				require.ErrorIs(t, err, contract.ErrWrongType)
			}
			if err := contract.BootstrapConfig(v).Read(obj, &contract.BootstrapConfigState{}); err != nil {
				require.ErrorIs(t, err, contract.ErrWrongType)
			}
		}
		_, _ = contract.ConditionsAt("status", "conditions").Get(obj.Object, nil)
		require.Empty(t, cmp.Diff(before.Object, obj.Object), "Read changed the object")
	})
}

func FuzzMachineReadAndWrite(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		obj := &unstructured.Unstructured{Object: anyObject(text)}
		before := obj.DeepCopy()
		var state contract.MachineState
		err := machineKind().Adapter.Read(obj, &state)
		require.Empty(t, cmp.Diff(before.Object, obj.Object), "Read changed the object")
		if err != nil {
			require.ErrorIs(t, err, contract.ErrWrongType)
			_ = machineKind().Adapter.Write(obj, fullUpdate()) // may fail, must not panic
			return
		}
		require.NoError(t, machineKind().Adapter.Write(obj, fullUpdate()), "what can be read can be written")
		want := fullUpdate()
		after := readMachine(t, obj)
		require.Equal(t, "Running", after.Phase)
		require.Equal(t, contract.NodeRef{Name: "n2", UID: "n2-uid"}, after.Node)
		if diff := cmp.Diff(want.Conditions, own(after.Conditions), cmpopts.SortSlices(func(a, b metav1.Condition) bool { return a.Type < b.Type })); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
	})
}

// own keeps the first condition of each type that fullUpdate writes; an object may hold others, and one type twice.
func own(conditions []metav1.Condition) []metav1.Condition {
	seen := map[string]bool{}
	var kept []metav1.Condition
	for _, c := range conditions {
		if (c.Type == "Ready" || c.Type == "New") && !seen[c.Type] {
			kept = append(kept, c)
			seen[c.Type] = true
		}
	}
	return kept
}

func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1]}}`), []byte(`{"a":{}}`))
	f.Add([]byte(`{"a":null,"b":{"c":null}}`), []byte(`{"b":null,"d":{"e":null}}`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		from, to := anyObject(before), anyObject(after)
		patch, _ := contract.MergePatch(from, to)
		if patch == nil || from == nil || hasNull(from) || hasNull(to) {
			return // a patch cannot write null, and needs a document
		}
		if diff := cmp.Diff(withoutEmpty(to), withoutEmpty(patched(t, from, patch))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func hasNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, inner := range v {
			if hasNull(inner) {
				return true
			}
		}
	case []any:
		if slices.ContainsFunc(v, hasNull) {
			return true
		}
	}
	return false
}
