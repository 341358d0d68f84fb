package contract

import (
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// selector reads matchLabels, and matchExpressions with key, operator and values; nil when the selector is absent or null. The empty
// selector is not nil: it selects everything, and nil selects nothing. Operators are returned as they stand
// (metav1.LabelSelectorAsSelector knows which there are). It keeps the selector that the state held before while it says the same.
func (r *reader) selector(path Path, before *metav1.LabelSelector) *metav1.LabelSelector {
	raw := r.raw(path)
	if raw == nil {
		return nil
	}
	if values, ok := raw.(map[string]any); ok && before != nil && sameSelector(before, values) {
		return before
	}
	selector := &metav1.LabelSelector{MatchLabels: r.textMap(path.below("matchLabels"), nil)}
	if expressions := readEntries(r, path.below("matchExpressions"), nil, readExpression); len(expressions) > 0 {
		selector.MatchExpressions = make([]metav1.LabelSelectorRequirement, 0, len(expressions))
		for _, expression := range expressions {
			selector.MatchExpressions = append(selector.MatchExpressions, *expression)
		}
	}
	if r.err != nil {
		return nil
	}
	return selector
}

// readExpression returns a pointer, because an expression is not comparable, as what entriesOf reads must be.
func readExpression(e entry) (*metav1.LabelSelectorRequirement, error) {
	key, err := e.needed("key")
	if err != nil {
		return nil, err
	}
	operator, err := e.needed("operator")
	if err != nil {
		return nil, err
	}
	values, _, err := textsAt(NewPath("values"), e.values, nil)
	return &metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: values}, e.locate(err)
}

// locate turns an error about a member of an entry into one that names the place in the whole object.
func (e entry) locate(err error) error {
	if wrong, ok := errors.AsType[*FieldError](err); ok {
		return &FieldError{Path: entryPath(e.list, e.index, wrong.Path.Segments()...), Want: wrong.Want, Got: wrong.Got}
	}
	return err
}

// sameSelector reports whether a selector says what the content of one says. Content of another type is never the same.
func sameSelector(have *metav1.LabelSelector, values map[string]any) bool {
	labels, ok := optional[map[string]any](values, "matchLabels")
	if !ok || !sameTexts(have.MatchLabels, labels) {
		return false
	}
	expressions, ok := optional[[]any](values, "matchExpressions")
	return ok && slices.EqualFunc(have.MatchExpressions, expressions, sameExpression)
}

func sameExpression(have metav1.LabelSelectorRequirement, item any) bool {
	values, ok := item.(map[string]any)
	if !ok || !isText(values["key"], have.Key) || !isText(values["operator"], string(have.Operator)) {
		return false
	}
	texts, ok := optional[[]any](values, "values")
	return ok && sameList(have.Values, texts)
}

// optional returns a member of a type, its zero value when the member is absent; ok is false for another type and for null.
func optional[T any](values map[string]any, key string) (member T, ok bool) {
	raw, found := values[key]
	if !found {
		return member, true
	}
	member, ok = raw.(T)
	return member, ok
}
