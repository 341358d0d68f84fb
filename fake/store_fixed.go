package fake

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateFixed rejects an update that changes immutable fields of a built-in kind.
func validateFixed(k *kind, is, was map[string]any) field.ErrorList {
	switch k.GroupKind {
	case nodeKind:
		return validateProviderID(is, was)
	case podKind:
		return validatePodSpec(is, was)
	case secretKind:
		return append(validation.ValidateImmutableField(is["type"], was["type"], field.NewPath("type")), validateImmutable(is, was, "data")...)
	case configMapKind:
		return validateImmutable(is, was, "data", "binaryData")
	}
	return nil
}

func validateProviderID(is, was map[string]any) field.ErrorList {
	before, _, _ := unstructured.NestedString(was, "spec", "providerID")
	after, _, _ := unstructured.NestedString(is, "spec", "providerID")
	if before == "" || before == after {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "providerID"),
		`node updates may not change providerID except from "" to valid`)}
}

func validateImmutable(is, was map[string]any, fields ...string) field.ErrorList {
	if was["immutable"] != true {
		return nil
	}
	var errs field.ErrorList
	for _, name := range append([]string{"immutable"}, fields...) {
		if !reflect.DeepEqual(is[name], was[name]) {
			errs = append(errs, field.Forbidden(field.NewPath(name), "field is immutable when `immutable` is set"))
		}
	}
	return errs
}

const podChange = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
	"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n%v"

// validatePodSpec allows changes of a pod's images, deadline, tolerations and gates only, as ValidatePodUpdate of
// kube-apiserver does. For pods with scheduling gates kube-apiserver also allows changes of node selector and affinity;
// the store does not.
func validatePodSpec(is, was map[string]any) field.ErrorList {
	wanted, _ := is["spec"].(map[string]any)
	before, _ := was["spec"].(map[string]any)
	if reflect.DeepEqual(wanted, before) {
		return nil
	}
	after := runtime.DeepCopyJSON(wanted)
	path := field.NewPath("spec")
	for _, name := range []string{"containers", "initContainers"} {
		if len(items(after, name)) != len(items(before, name)) {
			return field.ErrorList{field.Forbidden(path.Child(name), "pod updates may not add or remove containers")}
		}
		for i, container := range items(after, name) {
			container["image"] = items(before, name)[i]["image"]
		}
	}
	errs := validateTolerations(items(after, "tolerations"), items(before, "tolerations"))
	errs = append(errs, validateGates(items(after, "schedulingGates"), items(before, "schedulingGates"))...)
	for _, name := range []string{"activeDeadlineSeconds", "tolerations", "schedulingGates"} {
		delete(after, name)
		if value, had := before[name]; had {
			after[name] = value
		}
	}
	if grace, _ := before["terminationGracePeriodSeconds"].(int64); grace < 0 && after["terminationGracePeriodSeconds"] == int64(1) {
		after["terminationGracePeriodSeconds"] = grace
	}
	if !reflect.DeepEqual(after, before) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf(podChange, diff.Diff(before, after))))
	}
	return errs
}

func validateTolerations(after, before []map[string]any) field.ErrorList {
	for _, old := range before {
		if !slices.ContainsFunc(after, func(toleration map[string]any) bool {
			same := maps.Clone(old)
			delete(same, "tolerationSeconds")
			if seconds, has := toleration["tolerationSeconds"]; has {
				same["tolerationSeconds"] = seconds
			}
			return reflect.DeepEqual(same, toleration)
		}) {
			return field.ErrorList{field.Forbidden(field.NewPath("spec", "tolerations"),
				"existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return nil
}

func validateGates(after, before []map[string]any) field.ErrorList {
	var errs field.ErrorList
	for i, gate := range after {
		if !slices.ContainsFunc(before, func(old map[string]any) bool { return old["name"] == gate["name"] }) {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "schedulingGates").Index(i).Child("name"),
				fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%v'", gate["name"])))
		}
	}
	return errs
}

// items reads a list of objects of a built-in kind, whose Go type guarantees the types.
func items(parent map[string]any, name string) []map[string]any {
	list, _ := parent[name].([]any)
	out := make([]map[string]any, 0, len(list))
	for _, item := range list {
		m, _ := item.(map[string]any)
		out = append(out, m)
	}
	return out
}
