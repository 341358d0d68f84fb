package autoscaler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// read walks to a value of type T, an object or a list for instance. Absent, or null on the way, is found=false; null at the
// place itself and any other type is a FieldError. The value is a view.
func read[T any](obj map[string]any, want string, segments ...string) (value T, found bool, err error) {
	last := len(segments) - 1
	for i, key := range segments[:last] {
		next, ok := obj[key]
		if !ok || next == nil {
			return value, false, nil
		}
		inner, ok := next.(map[string]any)
		if !ok {
			return value, false, &contract.FieldError{Path: contract.NewPath(segments[:i+1]...), Want: "object", Got: contract.TypeName(next)}
		}
		obj = inner
	}
	raw, found := obj[segments[last]]
	if !found {
		return value, false, nil
	}
	if value, found = raw.(T); !found {
		return value, false, &contract.FieldError{Path: contract.NewPath(segments...), Want: want, Got: contract.TypeName(raw)}
	}
	return value, true, nil
}

// readTexts reads an object whose values are all texts. The autoscaler takes one with any other value for absent. The map is
// the caller's.
func readTexts(obj map[string]any, segments ...string) (map[string]string, error) {
	raw, found, err := read[map[string]any](obj, "object", segments...)
	if err != nil || !found {
		return nil, err
	}
	texts := make(map[string]string, len(raw))
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		text, ok := raw[key].(string)
		if !ok {
			return nil, &contract.FieldError{Path: contract.NewPath(append(slices.Clone(segments), key)...), Want: "string",
				Got: contract.TypeName(raw[key])}
		}
		texts[key] = text
	}
	return texts, nil
}

// textOf reads one entry of a list of objects; what is no text is an error at list[i].key.
func textOf(list contract.Path, i int, entry map[string]any, key string) (string, error) {
	raw, found := entry[key]
	if !found {
		return "", nil
	}
	text, ok := raw.(string)
	if !ok {
		return "", &contract.FieldError{Path: at(list, i, key), Want: "string", Got: contract.TypeName(raw)}
	}
	return text, nil
}

// at is the path of a list's entry, and of a key in it: "spec.taints[2].key".
func at(list contract.Path, i int, key ...string) contract.Path {
	segments := list.Segments()
	segments[len(segments)-1] += "[" + strconv.Itoa(i) + "]"
	return contract.NewPath(append(segments, key...)...)
}

// name says which object is meant: "Machine default/worker-1".
func name(obj *unstructured.Unstructured) string {
	if obj.GetNamespace() == "" {
		return obj.GetKind() + " " + obj.GetName()
	}
	return obj.GetKind() + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// joinedFirst joins the first of many errors, and says how many more there are.
func joinedFirst(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(errs) - maxAlike; more > 1 {
		errs = append(errs[:maxAlike], fmt.Errorf("and the like %d more times, first: %w", more, errs[maxAlike]))
	}
	return errors.Join(errs...)
}

func describeError(obj *unstructured.Unstructured, err error) error {
	return fmt.Errorf("%s: %w", name(obj), err)
}
