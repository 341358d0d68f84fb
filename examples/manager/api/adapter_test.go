package api_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
)

const rounds = 2000

// twins are the same Machine as it is served, as a Go type and as unstructured content.
type twins struct {
	typed   *api.Machine
	content *unstructured.Unstructured
}

func layoutKind() contract.Kind {
	return contract.Unstructured(api.ClusterAPI.GroupVersion().WithKind("Machine"), contract.LayoutsOf(contract.V1Beta2).Machine)
}

func parseTwins(t testing.TB, served map[string]any) twins {
	t.Helper()
	raw, err := json.Marshal(served)
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, api.ClusterAPI.AddToScheme(scheme))
	decoded, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(raw, nil, nil)
	require.NoError(t, err)
	content := &unstructured.Unstructured{}
	require.NoError(t, content.UnmarshalJSON(raw))
	return twins{decoded.(*api.Machine), content}
}

// requireEqualStates reads both.
func (w twins) requireEqualStates(t testing.TB, seed uint64) {
	t.Helper()
	var want, got contract.MachineState
	wantErr, gotErr := layoutKind().Adapter.Read(w.content, &want), api.ClusterAPI.Machine().Adapter.Read(w.typed, &got)
	if wantErr != nil {
		require.EqualError(t, gotErr, wantErr.Error(), "seed %d", seed)
		return
	}
	require.NoError(t, gotErr, "seed %d", seed)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), unexported()); diff != "" {
		t.Fatalf("seed %d: the states (-layout +type):\n%s", seed, diff)
	}
}

func unexported() cmp.Option {
	return cmp.AllowUnexported(contract.Opt[bool]{}, contract.Opt[string]{}, contract.Opt[time.Duration]{})
}

func toContent(t testing.TB, m *api.Machine) map[string]any {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	require.NoError(t, err)
	return content
}

func TestTheTypeIsReadAndPatchedAsTheLayoutIs(t *testing.T) {
	t.Parallel()
	served := machineSchema(t)
	for seed := range uint64(rounds) {
		requireAlike(t, served, seed)
	}
}

func FuzzTheTypeIsReadAndPatchedAsTheLayoutIs(f *testing.F) {
	served := machineSchema(f)
	f.Add(uint64(rounds))
	f.Fuzz(func(t *testing.T, seed uint64) { requireAlike(t, served, seed) })
}

// requireAlike reads one Machine, writes one update and reads again.
func requireAlike(t *testing.T, served *schema, seed uint64) {
	t.Helper()
	d := dice{rand.New(rand.NewPCG(seed, 0))}
	w, update := parseTwins(t, d.machine(served)), d.update()
	w.requireEqualStates(t, seed)

	before, typedBefore := w.content.DeepCopy(), w.typed.DeepCopy()
	require.NoError(t, layoutKind().Adapter.Write(w.content, update))
	require.NoError(t, api.ClusterAPI.Machine().Adapter.Write(w.typed, update))
	want := contract.MergePatch(before.Object, w.content.Object)
	got := contract.MergePatch(toContent(t, typedBefore), toContent(t, w.typed))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("seed %d: the patches (-layout +type):\n%s\nof %v", seed, diff, before)
	}
	w.requireEqualStates(t, seed)
}

func TestTheDiceFillEveryFieldThatIsReadAndWritten(t *testing.T) {
	t.Parallel()
	served := machineSchema(t)
	var states, updates []any
	for seed := range uint64(300) {
		d := dice{rand.New(rand.NewPCG(seed, 0))}
		var state contract.MachineState
		if api.ClusterAPI.Machine().Adapter.Read(parseTwins(t, d.machine(served)).typed, &state) == nil {
			states = append(states, state)
		}
		updates = append(updates, d.update())
	}
	for _, all := range [][]any{states, updates} {
		unset := map[string]bool{}
		for i := range reflect.TypeOf(all[0]).NumField() {
			unset[reflect.TypeOf(all[0]).Field(i).Name] = true
			for _, one := range all {
				if !reflect.ValueOf(one).Field(i).IsZero() {
					delete(unset, reflect.TypeOf(one).Field(i).Name)
				}
			}
		}
		require.Empty(t, unset, "never set in %T", all[0])
	}
}

func TestACopySharesNothing(t *testing.T) {
	t.Parallel()
	served := machineSchema(t)
	for seed := range uint64(300) {
		d := dice{rand.New(rand.NewPCG(seed, 1))}
		m := parseTwins(t, d.machine(served)).typed
		list := &api.MachineList{Items: []*api.Machine{m.DeepCopy()}}
		before, listBefore := toContent(t, m), list.DeepCopy()
		scribble(reflect.ValueOf(m.DeepCopy()))
		scribble(reflect.ValueOf(list.DeepCopyObject()))
		require.Empty(t, cmp.Diff(before, toContent(t, m)))
		require.Empty(t, cmp.Diff(listBefore, list))
		require.Empty(t, cmp.Diff(m, m.DeepCopyObject()))
	}
	require.Nil(t, (*api.Machine)(nil).DeepCopy())
	require.Nil(t, (*api.MachineList)(nil).DeepCopy())
}

// scribble overwrites whatever can be reached.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scribble(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	case reflect.String:
		v.SetString("scribbled")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	default:
	}
}

// An object from a cache shares its content with other readers.
func TestWritingChangesNothingThatACachedObjectShares(t *testing.T) {
	t.Parallel()
	served := machineSchema(t)
	for seed := range uint64(300) {
		d := dice{rand.New(rand.NewPCG(seed, 2))}
		cached := parseTwins(t, d.machine(served)).typed
		before := cached.DeepCopy()
		shallow := *cached
		require.NoError(t, api.ClusterAPI.Machine().Adapter.Write(&shallow, d.update()))
		require.Empty(t, cmp.Diff(before, cached))
	}
}

func TestAnUpdateIsNotChanged(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		update, same := dice{rand.New(rand.NewPCG(seed, 3))}.update(), dice{rand.New(rand.NewPCG(seed, 3))}.update()
		require.NoError(t, api.ClusterAPI.Machine().Adapter.Write(&api.Machine{}, update))
		require.Empty(t, cmp.Diff(same, update, cmp.Exporter(func(reflect.Type) bool { return true })))
	}
}
