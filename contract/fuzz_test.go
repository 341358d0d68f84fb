package contract_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
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
		fullMachine, fullMachineV1Beta1, provisionedMachine, foreignMachineCases()[0].full, foreignMachineCases()[1].full,
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
func fuzzField[T scalarValue](t *testing.T, obj map[string]any, f contract.Field[T]) {
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
	if contract.Set(f, changed, value) != nil {
		return
	}
	back, found, err := f.Get(changed)
	if back != value || !found || err != nil {
		t.Fatalf("%s: wrote %v, read back %v, found=%v, %v", f.Path(), value, back, found, err)
	}
	require.NoError(t, contract.Clear(f, changed))
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
			if err := contract.LayoutsOf(v).InfraMachine.Read(obj, &contract.InfraMachineState{}); err != nil {
				require.ErrorIs(t, err, contract.ErrWrongType)
			}
			if err := contract.LayoutsOf(v).BootstrapConfig.Read(obj, &contract.BootstrapConfigState{}); err != nil {
				require.ErrorIs(t, err, contract.ErrWrongType)
			}
		}
		_, _ = contract.ConditionsAt("status", "conditions").Get(obj.Object, nil)
		require.Empty(t, cmp.Diff(before.Object, obj.Object), "Read changed the object")
	})
}

// fuzzKind checks on any object that reading changes nothing and never panics, that what can be read can be written, that a
// write leaves all but the places of the layout as it was, and that writing twice is writing once. The update must be made
// of the conditions, labels and annotations of fullUpdate.
func fuzzKind[S, U any](t *testing.T, text []byte, kind contract.KindOf[S, U], layout any, update U) {
	t.Helper()
	content := anyObject(text)
	if content == nil {
		content = map[string]any{}
	}
	obj := &unstructured.Unstructured{Object: content}
	before := obj.DeepCopy()
	var state S
	err := kind.Adapter.Read(obj, &state)
	require.Empty(t, cmp.Diff(before.Object, obj.Object), "Read changed the object")
	if err != nil {
		require.ErrorIs(t, err, contract.ErrWrongType)
		_ = kind.Adapter.Write(obj, update) // may fail, must not panic
		return
	}
	require.NoError(t, kind.Adapter.Write(obj, update), "what can be read can be written")
	annotations := []string{"note"}
	conditions := []string{"Ready", "Zoned", "Available", "NeverThere"}
	requireUntouched(t, layout, before.Object, obj.Object, conditions, []string{"new", "x"}, annotations)

	var first, second S
	require.NoError(t, kind.Adapter.Read(obj, &first), "what was written can be read")
	again := obj.DeepCopy()
	require.NoError(t, kind.Adapter.Write(again, update))
	require.Empty(t, cmp.Diff(obj.Object, again.Object), "writing twice is writing once")
	require.NoError(t, kind.Adapter.Read(again, &second))
	if diff := diffStates(first, second); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1]}}`), []byte(`{"a":{}}`))
	f.Add([]byte(`{"a":null,"b":{"c":null}}`), []byte(`{"b":null,"d":{"e":null}}`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		from, to := anyObject(before), anyObject(after)
		patch := contract.MergePatch(from, to)
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
