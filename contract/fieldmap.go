package contract

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantitiesOf reads amounts of resources by name, nil for null. An amount is a text ("500m", "16Gi") or an integer, which the usual schema
// of a quantity allows too although cluster-autoscaler then reads none of the map.
func quantitiesOf(path Path, raw any) (corev1.ResourceList, error) {
	if raw == nil {
		return nil, nil
	}
	values, ok := raw.(map[string]any)
	if !ok {
		return nil, &FieldError{Path: path, Want: "object", Got: TypeName(raw)}
	}
	amounts := make(corev1.ResourceList, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		amount, wrong := quantityOf(values[name])
		if wrong != "" {
			return nil, &FieldError{Path: path.below(name), Want: "quantity", Got: wrong}
		}
		amounts[corev1.ResourceName(name)] = amount
	}
	return amounts, nil
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
