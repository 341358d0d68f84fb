package autoscaler

import (
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// TemplateCapacity reads status.capacity and status.nodeInfo of an infrastructure template. Quantities must be texts: the
// autoscaler drops all of status.capacity when one is a number. The error matches contract.ErrWrongType and joins one error
// for each text that is no quantity; what the autoscaler can read is returned beside it. The template is neither changed nor
// kept.
// Rule: Cluster API's proposal "opt-in autoscaling from zero".
func TemplateCapacity(template *unstructured.Unstructured) (Capacity, error) {
	var known Capacity
	quantities, err := readTexts(template.Object, "status", "capacity")
	errs := []error{err}
	for _, name := range slices.Sorted(maps.Keys(quantities)) {
		quantity, ok := parseQuantity(quantities[name])
		if !ok || quantity.Sign() < 0 {
			errs = append(errs, &contract.FieldError{Path: contract.NewPath("status", "capacity", name),
				Want: quantityWanted + ", from 0", Got: quoted(quantities[name])})
			continue
		}
		known.Resources = put(known.Resources, corev1.ResourceName(name), quantity)
	}
	info, err := readTexts(template.Object, "status", "nodeInfo")
	errs = append(errs, err)
	known.Architecture, known.OperatingSystem = info["architecture"], info["operatingSystem"]
	if err := joinedFirst(errs); err != nil {
		return known, describeError(template, err)
	}
	return known, nil
}

// specCapacity reads the labels and taints that a group gives its Machines.
func specCapacity(group *unstructured.Unstructured) (Capacity, error) {
	var known Capacity
	var errs []error
	for _, segments := range [][]string{
		{"spec", "template", "spec", "metadata", "labels"},
		{"spec", "template", "metadata", "labels"},
	} {
		labels, err := readTexts(group.Object, segments...)
		errs = append(errs, err)
		for key, value := range labels {
			if ManagedLabel(key) {
				known.Labels = put(known.Labels, key, value)
			}
		}
	}
	taints, err := specTaints(group)
	known.Taints = taints
	return known, errors.Join(append(errs, err)...)
}

// specTaints reads spec.template.spec.taints, which the autoscaler reads without complaints: an entry that is no object is
// passed over, and a text that is none is empty.
func specTaints(group *unstructured.Unstructured) ([]corev1.Taint, error) {
	list := contract.NewPath("spec", "template", "spec", "taints")
	raw, _, err := read[[]any](group.Object, "list", list.Segments()...)
	errs := []error{err}
	var taints []corev1.Taint
	for i, item := range raw {
		object, ok := item.(map[string]any)
		if !ok {
			errs = append(errs, &contract.FieldError{Path: at(list, i), Want: "object", Got: contract.TypeName(item)})
			continue
		}
		key, keyErr := textOf(list, i, object, "key")
		value, valueErr := textOf(list, i, object, "value")
		effect, effectErr := textOf(list, i, object, "effect")
		if err := errors.Join(keyErr, valueErr, effectErr); err != nil {
			errs = append(errs, err)
			continue
		}
		taint := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
		if want := wrongTaint(taint); want != "" {
			errs = append(errs, &contract.FieldError{Path: at(list, i), Want: want, Got: quoted(taint.ToString())})
			continue
		}
		taints = append(taints, taint)
	}
	return mergedTaints(nil, taints), joinedFirst(errs)
}

// ManagedLabel reports whether Cluster API copies a label of a Machine to its Node, so that the autoscaler may count on it:
// those of node-role.kubernetes.io, and of node-restriction.kubernetes.io and node.cluster.x-k8s.io and their subdomains.
// These domains do not follow the API group. Rule: Cluster API's page on metadata propagation.
func ManagedLabel(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	if domain == "node-role.kubernetes.io" {
		return true
	}
	for _, managed := range []string{"node-restriction.kubernetes.io", "node.cluster.x-k8s.io"} {
		if domain == managed || strings.HasSuffix(domain, "."+managed) {
			return true
		}
	}
	return false
}
