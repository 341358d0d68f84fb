package autoscaler

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/machinist-dev/machinist/contract"
)

// selectorOf reads spec.selector. The error is a FieldError.
func selectorOf(group *unstructured.Unstructured) (labels.Selector, error) {
	at := contract.NewPath("spec", "selector")
	raw, found, err := read[map[string]any](group.Object, "object", at.Segments()...)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, &contract.FieldError{Path: at, Want: "object", Got: "nothing"}
	}
	matchLabels, err := readTexts(group.Object, "spec", "selector", "matchLabels")
	if err != nil {
		return nil, err
	}
	if err := invalidMatchLabels(matchLabels); err != nil {
		return nil, err
	}
	var parsed metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &parsed); err != nil {
		return nil, &contract.FieldError{Path: contract.NewPath("spec", "selector", "matchExpressions"),
			Want: "a list of key, operator and values", Got: "another shape"}
	}
	for i := range parsed.MatchExpressions {
		one := &metav1.LabelSelector{MatchExpressions: parsed.MatchExpressions[i : i+1]}
		if _, err := metav1.LabelSelectorAsSelector(one); err != nil {
			return nil, &contract.FieldError{Path: contract.NewPath("spec", "selector", fmt.Sprintf("matchExpressions[%d]", i)),
				Want: "a valid requirement", Got: quoted(err.Error())}
		}
	}
	return metav1.LabelSelectorAsSelector(&parsed)
}

func invalidMatchLabels(matchLabels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(matchLabels)) {
		if !validLabel(key, matchLabels[key]) {
			return &contract.FieldError{Path: contract.NewPath("spec", "selector", "matchLabels"), Want: "valid labels",
				Got: quoted(key + "=" + matchLabels[key])}
		}
	}
	return nil
}
