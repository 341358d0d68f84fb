package clusterapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/machinist-dev/machinist/contract"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// pair is a kind as a Go type and as unstructured objects.
type pair[S, U any] struct{ typed, plain contract.KindOf[S, U] }

// decoded returns the object of a text as a Go type.
func decoded[S, U any](t testing.TB, kind contract.KindOf[S, U], text string) contract.Object {
	t.Helper()
	obj := kind.New()
	require.NoError(t, json.Unmarshal([]byte(text), obj))
	return obj
}

// plain returns the content that both shapes know: that of the Go type, encoded and decoded.
func plain(t testing.TB, obj contract.Object) *unstructured.Unstructured {
	t.Helper()
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.DeepCopy()
	}
	encoded, err := json.Marshal(obj)
	require.NoError(t, err)
	u := &unstructured.Unstructured{}
	require.NoError(t, utiljson.Unmarshal(encoded, &u.Object))
	return u
}

// equal compares states and contents. Deprecated numbers have no "unknown" in Go types, so that zero and absent are the same.
func equal(t testing.TB, want, got any, about ...any) {
	t.Helper()
	diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }), cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) }),
		cmp.FilterPath(deprecated, cmp.Comparer(func(a, b contract.Opt[int32]) bool { return a.Or(0) == b.Or(0) })))
	require.Empty(t, diff, fmt.Sprint(append(about, "(-unstructured +typed)")...))
}

func deprecated(p cmp.Path) bool {
	switch p.Last().String() {
	case ".NodeReadyReplicas", ".NodeAvailableReplicas", ".FullyLabeledReplicas", ".UnavailableReplicas", ".UpdatedReplicas":
		return true
	}
	return false
}

// agree checks that both adapters read the same state from an object, and that both write the same object, fields aside that the Go types do
// not know.
func (p pair[S, U]) agree(t testing.TB, obj contract.Object, update U) {
	t.Helper()
	content, before := plain(t, obj), obj.DeepCopyObject()
	var want, got S
	wantErr, gotErr := p.plain.Adapter.Read(content, &want), p.typed.Adapter.Read(obj, &got)
	require.Equal(t, wantErr == nil, gotErr == nil, "unstructured: %v, typed: %v", wantErr, gotErr)
	if wantErr != nil {
		require.ErrorIs(t, gotErr, contract.ErrWrongType)
		at, _ := errors.AsType[*contract.FieldError](wantErr)
		is, _ := errors.AsType[*contract.FieldError](gotErr)
		require.Equal(t, at.Path.String(), is.Path.String())
		return
	}
	equal(t, want, got)
	require.Equal(t, before, obj.DeepCopyObject(), "reading changes nothing")

	changed, shared := obj.DeepCopyObject().(contract.Object), shallow(obj)
	require.NoError(t, p.plain.Adapter.Write(content, update))
	require.NoError(t, p.typed.Adapter.Write(changed, update))
	require.NoError(t, p.typed.Adapter.Write(shared, update))
	require.Equal(t, before, obj.DeepCopyObject(), "writing changes nothing that a cached object shares")
	known := p.typed.New()
	require.NoError(t, reencode(content.Object, known))
	equal(t, withoutZeros(plain(t, known).Object), withoutZeros(plain(t, changed).Object), "written")
	require.NoError(t, p.plain.Adapter.Read(content, &want))
	require.NoError(t, p.typed.Adapter.Read(changed, &got))
	equal(t, want, got, "read after the write")
}

// reencode decodes content into a Go type. An unstructured object does not encode itself without a kind.
func reencode(content map[string]any, into contract.Object) error {
	encoded, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return json.Unmarshal(encoded, into)
}

// shallow returns a copy that shares everything with an object.
func shallow(obj contract.Object) contract.Object {
	c := reflect.New(reflect.TypeOf(obj).Elem())
	c.Elem().Set(reflect.ValueOf(obj).Elem())
	return c.Interface().(contract.Object)
}

// withoutZeros leaves out the deprecated numbers that are 0, what is empty, and the kind, which typed objects do not have.
func withoutZeros(content map[string]any) map[string]any {
	delete(content, "apiVersion")
	delete(content, "kind")
	status, _ := content["status"].(map[string]any)
	outer, _ := status["deprecated"].(map[string]any)
	inner, _ := outer["v1beta1"].(map[string]any)
	for key, value := range inner {
		if value == int64(0) {
			delete(inner, key)
		}
	}
	withoutEmpty(content)
	return content
}

func withoutEmpty(content map[string]any) {
	for key, value := range content {
		if object, ok := value.(map[string]any); ok {
			if withoutEmpty(object); len(object) == 0 {
				delete(content, key)
			}
		} else if list, ok := value.([]any); value == nil || ok && len(list) == 0 {
			delete(content, key)
		}
	}
}

// check runs what is true of every kind on an object that says everything.
func (p pair[S, U]) check(t *testing.T, full string, update U) {
	t.Helper()
	require.Equal(t, p.plain.GVK, p.typed.GVK)
	require.Equal(t, p.plain.StatusSubresource, p.typed.StatusSubresource)
	obj, content := decoded(t, p.typed, full), &unstructured.Unstructured{}
	require.NoError(t, utiljson.Unmarshal([]byte(full), &content.Object))
	var want, got S
	require.NoError(t, p.plain.Adapter.Read(content, &want))
	require.NoError(t, p.typed.Adapter.Read(obj, &got))
	equal(t, want, got)
	p.agree(t, obj, update)

	for name, read := range map[string]func(){
		"typed": func() { _ = p.typed.Adapter.Read(obj, &got) }, "unstructured": func() { _ = p.plain.Adapter.Read(content, &want) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, read), "allocations of reading a %s again, %s", p.typed.GVK.Kind, name)
	}
	unkept, err := contract.CheckKind(p.plain)
	require.NoError(t, err)
	forgotten, err := contract.CheckKind(p.typed)
	require.NoError(t, err)
	require.Equal(t, unkept, forgotten)
	empty, none := p.typed.New(), *new(S)
	require.NoError(t, p.typed.Adapter.Read(empty, &got))
	equal(t, none, got, "reading replaces what the state held before")
	var zero U
	p.agree(t, obj, zero)
	p.agree(t, empty, update)
	list := p.typed.NewList()
	require.True(t, strings.HasSuffix(reflect.TypeOf(list).String(), p.typed.GVK.Kind+"List"))
	require.ErrorIs(t, p.typed.Adapter.Read(content, &got), contract.ErrOtherType)
}
