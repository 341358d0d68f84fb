package contract_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// setCase is a kind in one version, and what must be true of it.
type setCase[S, U any] struct {
	layout contract.Layout[S, U]
	// kind is the plural, in lower case.
	kind, version string
	// full is an object that says everything the layout reads, and things it does not know; state is what it says.
	full  string
	state S
	// unsaid are members of the state that this version has no place for, writeOnly those of the layout that follow from others.
	unsaid, writeOnly []string
	// update sets everything that a pass can change, apply does by hand the same to a state, and writes are the places that
	// differ afterwards, besides metadata.
	update U
	apply  func(*S)
	writes []string
	// rereads are the allocations of reading an unchanged object again.
	rereads float64
}

func (c setCase[S, U]) adapter() contract.Adapter[S, U] {
	gvk := schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: c.version, Kind: "Set"}
	return contract.Unstructured(gvk, c.layout).Adapter
}

func (c setCase[S, U]) read(t *testing.T, obj contract.Object) S {
	t.Helper()
	var state S
	require.NoError(t, c.adapter().Read(obj, &state))
	return state
}

func requireStates(t *testing.T, want, got any) {
	t.Helper()
	if diff := diffStates(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// check runs everything that is true of every kind.
func (c setCase[S, U]) check(t *testing.T) {
	t.Run(c.version+"/it is read completely", c.isReadCompletely)
	t.Run(c.version+"/reading replaces what the state held before", c.readingReplaces)
	t.Run(c.version+"/an unchanged object is read again for nothing", c.readingAgainIsFree)
	t.Run(c.version+"/what was handed out does not change", c.handedOutStays)
	t.Run(c.version+"/a value of another type is an error that names the place", c.wrongTypesAreNamed)
	t.Run(c.version+"/what is written is read back equal", c.writtenIsReadBack)
	t.Run(c.version+"/a write touches its own places only", c.writesItsOwnPlaces)
	t.Run(c.version+"/nothing that is written would be pruned", c.nothingIsPruned)
	t.Run(c.version+"/a Kind without a layout is refused", c.withoutALayout)
	t.Run(c.version+"/it keeps what reconcilers need", c.keepsWhatIsNeeded)
}

func (c setCase[S, U]) isReadCompletely(t *testing.T) {
	requireAllSet(t, reflect.ValueOf(c.state), c.unsaid...)
	obj, before := parseObject(t, c.full), parseObject(t, c.full)
	requireStates(t, c.state, c.read(t, obj))
	require.Empty(t, cmp.Diff(before.Object, obj.Object), "reading changes nothing")
}

func (c setCase[S, U]) readingReplaces(t *testing.T) {
	state := c.read(t, parseObject(t, c.full))
	require.NoError(t, c.adapter().Read(&unstructured.Unstructured{}, &state))
	var none S
	requireStates(t, none, state)
}

func (c setCase[S, U]) readingAgainIsFree(t *testing.T) {
	obj, adapter := parseObject(t, c.full), c.adapter()
	state := c.read(t, obj)
	allocations(t, "reading it again", c.rereads, func() { _ = adapter.Read(obj, &state) })
	requireStates(t, c.state, state)
}

func (c setCase[S, U]) handedOutStays(t *testing.T) {
	state := c.read(t, parseObject(t, c.full))
	handedOut := state
	other := &unstructured.Unstructured{Object: altered(parseJSON(t, c.full)).(map[string]any)}
	require.NoError(t, c.adapter().Read(other, &state))
	requireStates(t, c.state, handedOut)
	requireStates(t, c.read(t, other), state)
}

// altered returns a copy in which every value is another one of the same kind.
func altered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		changed := map[string]any{}
		for key, inner := range v {
			changed[key] = altered(inner)
		}
		return changed
	case []any:
		changed := make([]any, 0, len(v))
		for _, inner := range v {
			changed = append(changed, altered(inner))
		}
		return changed
	case string:
		_, noTime := time.Parse(time.RFC3339, v)
		_, noDuration := time.ParseDuration(v)
		if noTime == nil || noDuration == nil || slices.Contains([]string{"True", "False", "Unknown", "true", "false"}, v) {
			return v
		}
		return v + "2"
	case int64:
		return v + 1
	default:
		return v
	}
}

func (c setCase[S, U]) wrongTypesAreNamed(t *testing.T) {
	for _, p := range contract.Places(c.layout) {
		if len(p.Paths) != 1 || slices.Contains(c.writeOnly, p.Name) { // of several places, one that can be read is enough
			continue
		}
		obj := parseObject(t, c.full)
		require.NoError(t, unstructured.SetNestedField(obj.Object, 1.5, p.Paths[0].Segments()...))
		var state S
		err := c.adapter().Read(obj, &state)
		require.ErrorIs(t, err, contract.ErrWrongType, p.Name)
		require.ErrorContains(t, err, ": "+p.Paths[0].String()+": want ", p.Name)
		require.ErrorContains(t, err, ", found number", p.Name)
	}
}

func (c setCase[S, U]) writtenIsReadBack(t *testing.T) {
	requireAllSet(t, reflect.ValueOf(c.update))
	for name, text := range map[string]string{"over a full object": c.full, "into an empty object": `{"metadata":{"name":"set-1"}}`} {
		t.Run(name, func(t *testing.T) {
			obj := parseObject(t, text)
			want := c.read(t, obj)
			c.apply(&want)
			require.NoError(t, c.adapter().Write(obj, c.update))
			requireStates(t, want, c.read(t, obj))
			again := obj.DeepCopy()
			require.NoError(t, c.adapter().Write(again, c.update))
			require.Empty(t, cmp.Diff(obj.Object, again.Object), "writing twice is writing once")
		})
	}
}

func (c setCase[S, U]) writesItsOwnPlaces(t *testing.T) {
	obj := parseObject(t, c.full)
	var nothing U
	require.NoError(t, c.adapter().Write(obj, nothing))
	require.Empty(t, cmp.Diff(parseJSON(t, c.full), obj.Object), "the zero update changes nothing")

	require.NoError(t, c.adapter().Write(obj, c.update))
	patch := contract.MergePatch(parseJSON(t, c.full), obj.Object)
	delete(patch, "metadata")
	if diff := cmp.Diff(slices.Sorted(slices.Values(c.writes)), leaves(patch, "")); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	kept := []string{"Ready", "Zoned", "Available", "NeverThere"}
	requireUntouched(t, c.layout, parseJSON(t, c.full), obj.Object, kept, []string{"new", "x"}, []string{"note"})
}

// leaves returns the dotted paths of everything in a patch that is no object, in order.
func leaves(patch map[string]any, prefix string) []string {
	var paths []string
	for _, key := range sortedKeys(patch) {
		if inner, ok := patch[key].(map[string]any); ok {
			paths = append(paths, leaves(inner, prefix+key+".")...)
		} else {
			paths = append(paths, prefix+key)
		}
	}
	return paths
}

func (c setCase[S, U]) nothingIsPruned(t *testing.T) {
	obj := &unstructured.Unstructured{}
	require.NoError(t, c.adapter().Write(obj, c.update))
	content := parseable(t, obj.Object)
	delete(content, "metadata")
	schema := foreignSchema(t, c.version, c.kind)
	if schema == nil {
		schema = crdSchema(t, c.kind, c.version)
	}
	require.Empty(t, pruned(schema, content, ""))
}

func (c setCase[S, U]) withoutALayout(t *testing.T) {
	none := reflect.Zero(reflect.TypeOf(c.layout)).Interface().(contract.Layout[S, U])
	kind := contract.Unstructured(schema.GroupVersionKind{Kind: "Set"}, none)
	require.Nil(t, kind.Adapter, "which reconcilers refuse")
}

func (c setCase[S, U]) keepsWhatIsNeeded(t *testing.T) {
	forgotten, err := contract.CheckKind(contract.Unstructured(schema.GroupVersionKind{Version: "v1", Kind: "Any"}, c.layout))
	require.NoError(t, err)
	for _, f := range forgotten {
		require.Equal(t, contract.NeedOptional, f.Need, f)
	}
	_, err = contract.CheckKind(contract.KindOf[S, U]{})
	require.Error(t, err)
}

// requireAllSet fails for a member that is zero: a test with it would not see what happens to that member.
func requireAllSet(t *testing.T, v reflect.Value, except ...string) {
	t.Helper()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous || field.Type == reflect.TypeFor[contract.MachineTemplate]() {
			requireAllSet(t, v.Field(i), except...)
			continue
		}
		require.Equal(t, slices.Contains(except, field.Name), v.Field(i).IsZero(), "whether %s is unset", field.Name)
	}
}

// setMetadata is the metadata of every full object here, and setMeta what it says.
const setMetadata = `"metadata":{
	"namespace":"default","name":"set-1","uid":"u-1","resourceVersion":"42","generation":7,
	"creationTimestamp":"2026-03-01T12:00:00Z","deletionTimestamp":"2026-03-01T13:00:00Z",
	"labels":{"x":"y"},"annotations":{"other":"kept"},"finalizers":["f"],
	"ownerReferences":[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","name":"c1","uid":"c-uid"}]}`

func setMeta() contract.Metadata {
	return contract.Metadata{
		Key: types.NamespacedName{Namespace: "default", Name: "set-1"}, UID: "u-1", ResourceVersion: "42", Generation: 7, Created: noon,
		Deleting: noon.Add(time.Hour),
		Labels:   map[string]string{"x": "y"}, Annotations: map[string]string{"other": "kept"}, Finalizers: []string{"f"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "c1", UID: "c-uid"}},
	}
}

// applyMetadata says by hand what the metadata of fullUpdate means.
func applyMetadata(m *contract.Metadata) {
	m.Finalizers = []string{"a", "b"}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "o", UID: "o-uid"}}
	if m.Labels == nil {
		m.Labels, m.Annotations = map[string]string{}, map[string]string{}
	}
	m.Labels["new"], m.Annotations["note"] = "label", ""
	delete(m.Labels, "x")
}

// selectorText is a selector in JSON, and setSelector what it says.
const selectorText = `{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["v","w"]},{"key":"z","operator":"Exists"}]}`

func setSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "k", Operator: "In", Values: []string{"v", "w"}}, {Key: "z", Operator: "Exists"},
	}}
}

// setConditions is a list of conditions in JSON and oldConditions one in the older shape, which must not be read beside it.
const (
	setConditions = `[{"type":"Ready","status":"False","reason":"R","message":"m","observedGeneration":6,"lastTransitionTime":"2026-03-01T12:00:00Z"},
		{"type":"Available","status":"Unknown","reason":"A","lastTransitionTime":"2026-03-01T12:00:00Z","x":"kept"}]`
	oldConditions = `[{"type":"Ready","status":"False","severity":"Error","reason":"Old","lastTransitionTime":"2026-03-01T12:00:00Z"},
		{"type":"Available","status":"Unknown","lastTransitionTime":"2026-03-01T12:00:00Z"}]`
)

// fuzzSet runs fuzzKind on every version of a kind, from the seeds of Machines and its own full objects.
func fuzzSet[S, U any](f *testing.F, cases []setCase[S, U]) {
	seeds(f)
	for _, c := range cases {
		f.Add([]byte(c.full))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, c := range cases {
			gvk := schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: c.version, Kind: "Set"}
			fuzzKind(t, text, contract.Unstructured(gvk, c.layout), c.layout, c.update)
		}
	})
}

// setMalformedCases are the kinds that setCase is for, in malformedCases. No reader takes the namespaces of references.
func setMalformedCases() map[string]malformedCase {
	cases := map[string]malformedCase{}
	for _, c := range machineCases() {
		cases["Machine "+c.version] = c.malformed("")
	}
	for _, c := range machineSetCases() {
		cases["MachineSet "+c.version] = c.malformed("Template.")
	}
	for _, c := range machineDeploymentCases() {
		cases["MachineDeployment "+c.version] = c.malformed("Template.")
	}
	for _, c := range machinePoolCases() {
		cases["MachinePool "+c.version] = c.malformed("Template.")
	}
	for _, c := range healthCheckCases() {
		cases["MachineHealthCheck "+c.version] = c.malformed("")
	}
	return cases
}

func (c setCase[S, U]) malformed(prefix string) malformedCase {
	writeOnly := c.writeOnly
	switch {
	case writeOnly != nil:
	case c.kind == "machinehealthchecks" && c.version == "v1beta1":
		writeOnly = []string{"Template.Namespace"}
	case c.version == "v1beta1":
		writeOnly = []string{prefix + "Bootstrap.Namespace", prefix + "Infrastructure.Namespace"}
	case c.version == "Kubermatic":
		writeOnly = []string{prefix + "Class.Namespace"}
	}
	read := func(obj *unstructured.Unstructured) (err, spared error) {
		var state S
		return c.adapter().Read(obj, &state), nil
	}
	return malformedCase{layout: c.layout, base: `{}`, read: read, writeOnly: writeOnly}
}
