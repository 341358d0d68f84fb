package patch

import (
	"fmt"
	"maps"

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
	changed, ok := obj.DeepCopyObject().(contract.Object)
	if !ok {
		return Contents{}, fmt.Errorf("copy of %T is not an object", obj)
	}
	if err := kind.Adapter.Write(changed, update); err != nil {
		return Contents{}, err
	}
	before, err := contentOf(obj)
	if err != nil {
		return Contents{}, err
	}
	after, err := contentOf(changed)
	return Contents{before, after}, err
}

func contentOf(obj contract.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", obj, err)
	}
	return content, nil
}

// Whole is the patch for everything, for kinds without a status subresource.
func (c Contents) Whole() Document { return document(c.before, c.after) }

// Main is the patch for everything but the status.
func (c Contents) Main() Document { return document(without(c.before), without(c.after)) }

// Status is the patch for the status.
func (c Contents) Status() Document { return document(statusOf(c.before), statusOf(c.after)) }

func document(before, after map[string]any) Document {
	body, replacesList := contract.MergePatch(before, after)
	return Document{body, replacesList}
}

func without(obj map[string]any) map[string]any {
	rest := maps.Clone(obj)
	delete(rest, "status")
	return rest
}

func statusOf(obj map[string]any) map[string]any {
	if status, found := obj["status"]; found {
		return map[string]any{"status": status}
	}
	return nil
}
