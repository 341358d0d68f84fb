package drain

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// ReadMachineDrainRule reads a MachineDrainRule of v1beta1 or v1beta2, or of a kind with the same fields. The error joins one
// [DrainRuleError] per field that cannot be read. Use the returned rule also with an error, because without it the Pods that it protects
// are evicted: see [MachineDrainRules]. Null means absent, as for Cluster API. obj may be nil. It is not changed or kept; the rule shares
// its strings.
func ReadMachineDrainRule(obj *unstructured.Unstructured) (MachineDrainRule, error) {
	if obj == nil {
		obj = &unstructured.Unstructured{}
	}
	r := ruleReader{rule: MachineDrainRule{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
	spec := r.object(obj.Object, "spec")
	drain := r.object(spec, "spec", "drain")
	if drain["behavior"] != nil {
		behavior, _, err := contract.At[string]("behavior").Get(drain)
		r.failed(err, "spec", "drain")
		r.rule.Behavior = Behavior(behavior)
	}
	if drain["order"] != nil {
		order, found, err := contract.At[int32]("order").Get(drain)
		r.failed(err, "spec", "drain")
		if found {
			r.rule.Order = &order
		}
	}
	for _, s := range r.entries(spec, "machines", "clusterSelector") {
		r.rule.Machines = append(r.rule.Machines, MachineSelector{Selector: s.own, ClusterSelector: s.outer})
	}
	for _, s := range r.entries(spec, "pods", "namespaceSelector") {
		r.rule.Pods = append(r.rule.Pods, PodSelector{Selector: s.own, NamespaceSelector: s.outer})
	}
	errs := make([]error, 0, len(r.rule.Unread))
	for _, problem := range r.rule.Unread {
		errs = append(errs, problem)
	}
	return r.rule, errors.Join(errs...)
}

// mostEntries limits the work for a kind with another schema; that of Cluster API allows 32 entries.
const mostEntries = 1024

type ruleReader struct{ rule MachineDrainRule }

// failed records an error about a value that was read from the object at the given keys.
func (r *ruleReader) failed(err error, at ...string) {
	if err == nil {
		return
	}
	path := contract.NewPath(at...)
	if wrong, ok := errors.AsType[*contract.FieldError](err); ok {
		path = contract.NewPath(append(slices.Clone(at), wrong.Path.Segments()...)...)
		err = &contract.FieldError{Path: path, Want: wrong.Want, Got: wrong.Got}
	}
	r.rule.Unread = append(r.rule.Unread, &DrainRuleError{Rule: r.rule.key(), Field: path.String(), Err: err})
}

// object returns the member with the last key of the object at the keys before it; nil if it is absent.
func (r *ruleReader) object(in map[string]any, at ...string) map[string]any {
	raw := in[at[len(at)-1]]
	if raw == nil {
		return nil
	}
	object, ok := raw.(map[string]any)
	if !ok {
		r.failed(wrongType("object", raw), at...)
	}
	return object
}

// selectors is one entry of spec.machines or spec.pods.
type selectors struct{ own, outer *metav1.LabelSelector }

// entries returns the entries of a list. If the value is not a list, it returns one unread entry.
func (r *ruleReader) entries(spec map[string]any, key, outerKey string) []selectors {
	raw := spec[key]
	if raw == nil {
		return nil
	}
	items, ok := raw.([]any)
	switch {
	case !ok:
		r.failed(wrongType("list", raw), "spec", key)
	case len(items) > mostEntries:
		r.failed(fmt.Errorf("want at most %d entries, found %d", mostEntries, len(items)), "spec", key)
	default:
		out := make([]selectors, 0, len(items))
		for i, item := range items {
			out = append(out, r.entry(item, outerKey, "spec", fmt.Sprintf("%s[%d]", key, i)))
		}
		return out
	}
	return []selectors{{own: unreadSelector()}}
}

func (r *ruleReader) entry(item any, outerKey string, at ...string) selectors {
	members, ok := item.(map[string]any)
	if !ok {
		r.failed(wrongType("object", item), at...)
		return selectors{own: unreadSelector()}
	}
	read := func(key string) *metav1.LabelSelector {
		s, err := contract.SelectorAt(key).Get(members)
		if err != nil {
			r.failed(err, at...)
			return unreadSelector()
		}
		return s
	}
	return selectors{own: read("selector"), outer: read(outerKey)}
}

// wrongType returns an error without its path, which failed adds.
func wrongType(want string, raw any) error {
	return &contract.FieldError{Want: want, Got: contract.TypeName(raw)}
}

// unread is the operator of a selector that replaces one that could not be read.
const unread metav1.LabelSelectorOperator = "Unread"

func unreadSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "unread", Operator: unread}}}
}

func isUnread(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchExpressions) == 1 && s.MatchExpressions[0].Operator == unread
}
