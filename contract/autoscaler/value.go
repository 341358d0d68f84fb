package autoscaler

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxQuantity is longer than any quantity that means something.
const maxQuantity = 64

// parseQuantity reads a quantity with a bounded effort. ParseQuantity alone needs hours and gigabytes for "1e-2147483647",
// which every user can write into an annotation, so an exponent has at most two digits here.
func parseQuantity(text string) (resource.Quantity, bool) {
	if len(text) > maxQuantity {
		return resource.Quantity{}, false
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		exponent := strings.TrimLeft(strings.TrimLeft(text[i+1:], "+-"), "0")
		if len(exponent) > 2 {
			return resource.Quantity{}, false
		}
	}
	quantity, err := resource.ParseQuantity(text)
	return quantity, err == nil
}

func validLabel(key, value string) bool {
	return len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}

// wrongTaint says what is wanted of a taint that the API would refuse, or nothing.
func wrongTaint(taint corev1.Taint) string {
	switch {
	case len(validation.IsQualifiedName(taint.Key)) > 0:
		return "a taint with a valid key"
	case len(validation.IsValidLabelValue(taint.Value)) > 0:
		return "a taint with a valid value"
	}
	switch taint.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return ""
	default:
		return "a taint with effect NoSchedule, PreferNoSchedule or NoExecute"
	}
}

// extendedResource reports whether pods can ask for a device by this name: those without a domain are Kubernetes' own.
func extendedResource(name string) bool {
	return strings.Contains(name, "/") && len(validation.IsQualifiedName(name)) == 0
}

// driverName reports whether a CSI or DRA driver may have this name.
func driverName(name string) bool {
	return len(name) <= validation.DNS1123LabelMaxLength && len(validation.IsDNS1123Subdomain(strings.ToLower(name))) == 0
}
