package patch

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/machinist-dev/machinist/contract"
)

// differing returns the contents of two objects of one type. Those of a Go type lack the members that are equal in both: no patch says
// anything about them, and their conversion is most of the cost of a patch.
func differing(before, after contract.Object) (Contents, error) {
	if u, ok := before.(*unstructured.Unstructured); ok {
		if changed, ok := after.(*unstructured.Unstructured); ok {
			return Contents{u.Object, changed.Object}, nil
		}
	}
	from, to := shallow(before), shallow(after)
	if from.IsValid() && to.IsValid() && from.Type() == to.Type() {
		zeroEqual(from.Elem(), to.Elem())
		return converted(from.Interface(), to.Interface())
	}
	return converted(before, after)
}

func converted(before, after any) (Contents, error) {
	from, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return Contents{}, fmt.Errorf("convert %T: %w", before, err)
	}
	to, err := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if err != nil {
		return Contents{}, fmt.Errorf("convert %T: %w", after, err)
	}
	return Contents{from, to}, nil
}

// shallow returns a pointer to a copy of a struct, which shares what the members of the original lead to. It is not valid for what is no
// pointer to a struct, or is encoded by a method of its own.
func shallow(obj any) reflect.Value {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct || encodesItself(v) {
		return reflect.Value{}
	}
	c := reflect.New(v.Type().Elem())
	c.Elem().Set(v.Elem())
	return c
}

// zeroEqual sets the members of two structs of one type to zero where they are equal, also inside of structs. It changes nothing that a
// pointer, map or slice leads to.
func zeroEqual(a, b reflect.Value) {
	for i := range a.NumField() {
		x, y := a.Field(i), b.Field(i)
		switch {
		case !x.CanSet() || (x.IsZero() && y.IsZero()):
		case x.Kind() == reflect.Struct && !encodesItself(x.Addr()):
			zeroEqual(x, y)
		case equal(x, y):
			x.SetZero()
			y.SetZero()
		}
	}
}

// equal is reflect.DeepEqual, without the copies that it makes of what most objects consist of.
func equal(x, y reflect.Value) bool {
	switch a := x.Addr().Interface().(type) {
	case *map[string]string:
		b, _ := reflect.TypeAssert[*map[string]string](y.Addr())
		return (*a == nil) == (*b == nil) && maps.Equal(*a, *b)
	case *metav1.Time:
		b, _ := reflect.TypeAssert[*metav1.Time](y.Addr())
		return a.Equal(b)
	}
	if kind := x.Kind(); kind == reflect.String || kind == reflect.Bool || x.CanInt() {
		return x.Equal(y)
	}
	return reflect.DeepEqual(x.Interface(), y.Interface())
}

// encodesItself reports whether the type of what a pointer leads to has a method that encodes it, as a whole.
func encodesItself(v reflect.Value) bool {
	switch v.Interface().(type) {
	case json.Marshaler, runtime.Unstructured, interface{ ToUnstructured() any }:
		return true
	}
	return false
}
