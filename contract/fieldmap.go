package contract

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TextMapField is the place of a map of texts, such as labels. The zero TextMapField is "no such place": it reads as absent.
// Safe for concurrent use as long as the object is not written.
type TextMapField struct{ path Path }

// TextMapAt returns the TextMapField at the given keys.
func TextMapAt(segments ...string) TextMapField { return TextMapField{path: NewPath(segments...)} }

func (f TextMapField) describe() (string, []Path) { return "map of strings", []Path{f.path} }

// Get returns a copy of the map, nil when it is absent or null, as Go writes an empty one. Another type is an error that
// matches ErrWrongType and names the first wrong entry in the order of the keys.
func (f TextMapField) Get(obj map[string]any) (map[string]string, error) {
	r := reader{obj: obj}
	texts := r.textMap(f.path, nil)
	return texts, r.err
}

// QuantitiesField is the place of amounts of resources by name, in the shape of corev1.ResourceList. The zero
// QuantitiesField is "no such place": it reads as absent. Safe for concurrent use as long as the object is not written.
type QuantitiesField struct{ path Path }

// QuantitiesAt returns the QuantitiesField at the given keys.
func QuantitiesAt(segments ...string) QuantitiesField {
	return QuantitiesField{path: NewPath(segments...)}
}

func (f QuantitiesField) describe() (string, []Path) { return "map of quantities", []Path{f.path} }

// Get returns the amounts, nil when the map is absent or null. An amount is a text ("500m", "16Gi") or an integer, which
// the usual schema of a quantity allows too although cluster-autoscaler then reads none of the map. Another type, and text
// that is no quantity, is an error that matches ErrWrongType and names the first wrong entry in the order of the keys.
func (f QuantitiesField) Get(obj map[string]any) (corev1.ResourceList, error) {
	r := reader{obj: obj}
	amounts := r.quantities(f, nil)
	return amounts, r.err
}

// quantities keeps the map that the state held before while it says the same.
func (r *reader) quantities(f QuantitiesField, before corev1.ResourceList) corev1.ResourceList {
	raw := r.raw(f.path)
	if raw == nil {
		return nil
	}
	values, ok := raw.(map[string]any)
	if !ok {
		r.fail(&FieldError{Path: f.path, Want: "object", Got: TypeName(raw)})
		return nil
	}
	if before != nil && sameQuantities(before, values) {
		return before
	}
	amounts := make(corev1.ResourceList, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		amount, wrong := quantityOf(values[name])
		if wrong != "" {
			r.fail(&FieldError{Path: NewPath(append(f.path.Segments(), name)...), Want: "quantity", Got: wrong})
			return nil
		}
		amounts[corev1.ResourceName(name)] = amount
	}
	return amounts
}

func sameQuantities(have corev1.ResourceList, values map[string]any) bool {
	if len(have) != len(values) {
		return false
	}
	for name, raw := range values {
		was, found := have[corev1.ResourceName(name)]
		is, wrong := quantityOf(raw)
		if !found || wrong != "" || was.Format != is.Format || was.Cmp(is) != 0 {
			return false
		}
	}
	return true
}

// quantityOf reads a quantity and says what is wrong with it. ParseQuantity does not come back from an exponent such as
// that of 1e-2000000000, so that no text with a long one gets there.
func quantityOf(raw any) (amount resource.Quantity, wrong string) {
	switch raw := raw.(type) {
	case int64:
		return *resource.NewQuantity(raw, resource.DecimalSI), ""
	case string:
		const longest, longestExponent = 64, len("e-100")
		if at := strings.IndexAny(raw, "eE"); len(raw) > longest || at >= 0 && len(raw)-at > longestExponent {
			return resource.Quantity{}, "unreadable text"
		}
		amount, err := resource.ParseQuantity(raw)
		if err != nil {
			return resource.Quantity{}, "unreadable text"
		}
		return amount, ""
	default:
		return resource.Quantity{}, TypeName(raw)
	}
}
