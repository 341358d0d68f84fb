package patch

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/machinist-dev/machinist/contract"
)

// Document is a merge patch for one object. It is empty when there is nothing to change.
type Document struct {
	body         map[string]any
	replacesList bool
}

// Empty reports whether there is nothing to write.
func (d Document) Empty() bool { return d.body == nil }

// Contents are the contents of an object before and after an update. The patches are made from the difference.
type Contents struct{ before, after map[string]any }

// Apply writes an update into a copy of obj and returns both contents. It does not change obj. The error is that of the
// kind's adapter.
func Apply[S, U any](kind contract.KindOf[S, U], obj contract.Object, update U) (Contents, error) {
	var base Base
	return ApplyOn(kind, &base, obj, update)
}

// Base caches the content of an object between several updates of it. The zero Base is empty. It is not safe for
// concurrent use.
type Base struct {
	of      contract.Object
	content map[string]any
}

// ApplyOn is Apply with a Base: the content of an object of a Go type is converted only once. The object must not
// change meanwhile.
func ApplyOn[S, U any](kind contract.KindOf[S, U], base *Base, obj contract.Object, update U) (Contents, error) {
	changed, ok := obj.DeepCopyObject().(contract.Object)
	if !ok {
		return Contents{}, fmt.Errorf("copy of %T is not an object", obj)
	}
	if err := kind.Adapter.Write(changed, update); err != nil {
		return Contents{}, err
	}
	if base.of != obj {
		before, err := content(obj)
		if err != nil {
			return Contents{}, err
		}
		*base = Base{of: obj, content: before}
	}
	after, err := content(changed)
	return Contents{base.content, after}, err
}

// Whole is the patch for everything, for kinds without a status subresource.
func (c Contents) Whole() Document { return document(c.before, c.after) }

// Main is the patch for everything but the status.
func (c Contents) Main() Document {
	return document(without(c.before, "status"), without(c.after, "status"))
}

// Status is the patch for the status.
func (c Contents) Status() Document { return document(statusOf(c.before), statusOf(c.after)) }

func document(before, after map[string]any) Document {
	body, replacesList := contract.MergePatch(before, after)
	return Document{body, replacesList}
}

func content(obj contract.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", obj, err)
	}
	return converted, nil
}

func without(obj map[string]any, key string) map[string]any {
	rest := make(map[string]any, len(obj))
	for k, v := range obj {
		if k != key {
			rest[k] = v
		}
	}
	return rest
}

func statusOf(obj map[string]any) map[string]any {
	if status, found := obj["status"]; found {
		return map[string]any{"status": status}
	}
	return map[string]any{}
}
