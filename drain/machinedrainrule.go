package drain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// behavior is what a [MachineDrainRule] does with its Pods, in the words of Cluster API. Any other value makes a rule invalid.
type behavior string

const (
	behaviorDrain         behavior = "Drain"         // evict, in the rule's order
	behaviorSkip          behavior = "Skip"          // do not evict, do not wait
	behaviorWaitCompleted behavior = "WaitCompleted" // do not evict, wait for completion; always order 0
)

// MachineDrainRule is Cluster API's MachineDrainRule, as [ReadMachineDrainRule] returns it. The versions v1beta1 and v1beta2 are equal.
type MachineDrainRule struct {
	namespace, name string
	behavior        behavior
	// order applies only to behaviorDrain; nil means 0.
	order *int32
	// machines are alternatives; none means all Machines in the Namespace of the rule.
	machines []machineSelector
	// pods are alternatives; none means all Pods of all Namespaces.
	pods []podSelector
	// unread are the fields that could not be read. Selectors that could not be read are replaced by invalid ones, so that the rule does not
	// select everything or nothing.
	unread []*drainRuleError
}

// machineSelector selects the Machines that both selectors match. Nil and empty selectors match everything.
type machineSelector struct {
	Selector        *metav1.LabelSelector
	ClusterSelector *metav1.LabelSelector
}

// podSelector selects the Pods that both selectors match. Nil and empty selectors match everything.
type podSelector struct {
	Selector          *metav1.LabelSelector
	NamespaceSelector *metav1.LabelSelector
}

// drainRuleError says which field of a MachineDrainRule is invalid.
type drainRuleError struct {
	rule  types.NamespacedName
	field string // the path in the object, for example "spec.pods[0].selector"
	err   error
}

// Error names the rule, the field, its problem, and what a person can do.
func (e *drainRuleError) Error() string {
	text := e.err.Error()
	if wrong, ok := errors.AsType[*contract.FieldError](e.err); ok {
		text = fmt.Sprintf("want %s, found %s", wrong.Want, wrong.Got) // field already contains its path
	}
	return fmt.Sprintf("MachineDrainRule %s: %s: %s; correct or delete the rule", e.rule, e.field, text)
}

// Unwrap implements the interface of package errors.
func (e *drainRuleError) Unwrap() error { return e.err }

func (r *MachineDrainRule) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: r.name}
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// drainRule is a rule with parsed selectors.
type drainRule struct {
	key      types.NamespacedName
	behavior behavior
	order    int32
	machines []pair
	pods     []pair
	// machine says whether the rule applies to the Machine; it is unclear until the Machine is known.
	machine answer
	// problems are all problems; holding is the text of the first one that makes the behavior or the selection of the rule unclear.
	problems []*drainRuleError
	holding  string
}

const orderField = "spec.drain.order"

func newDrainRule(r *MachineDrainRule) *drainRule {
	c := &drainRule{key: r.key(), behavior: r.behavior, machine: unclear, problems: slices.Clone(r.unread)}
	if len(r.unread) > 0 {
		c.holding = r.unread[0].Error()
	}
	if slices.ContainsFunc(r.unread, func(e *drainRuleError) bool { return e.field == orderField }) {
		c.behavior = ""
	}
	switch r.behavior {
	case behaviorDrain:
		if r.order != nil {
			c.order = *r.order
		}
	case behaviorSkip, behaviorWaitCompleted: // the webhook of Cluster API refuses an order, and its drain ignores it
	default:
		c.problem("spec.drain.behavior", fmt.Errorf("unknown behavior %.64q", string(r.behavior)))
	}
	for i, m := range r.machines {
		at := fmt.Sprintf("spec.machines[%d].", i)
		c.machines = append(c.machines, pair{c.selector(at+"selector", m.Selector), c.selector(at+"clusterSelector", m.ClusterSelector)})
	}
	for i, p := range r.pods {
		at := fmt.Sprintf("spec.pods[%d].", i)
		c.pods = append(c.pods, pair{c.selector(at+"selector", p.Selector), c.selector(at+"namespaceSelector", p.NamespaceSelector)})
	}
	if len(c.machines) == 0 {
		c.machine = yes
	}
	return c
}

func (c *drainRule) selector(field string, from *metav1.LabelSelector) selector {
	s, err := newSelector(from)
	if err != nil && !isUnread(from) {
		c.problem(field, err)
	}
	return s
}

func (c *drainRule) problem(field string, err error) {
	if slices.ContainsFunc(c.problems, func(e *drainRuleError) bool { return e.field == field }) {
		return // it was not read, which is a problem already
	}
	problem := &drainRuleError{rule: c.key, field: field, err: err}
	c.problems = append(c.problems, problem)
	if c.holding == "" {
		c.holding = problem.Error()
	}
}

// ReadMachineDrainRule reads a MachineDrainRule of v1beta1 or v1beta2, or of a kind with the same fields. The error joins one error per
// field that cannot be read. Use the returned rule also with an error, because without it the Pods that it protects
// are evicted: see [MachineDrainRules]. Null means absent, as for Cluster API. obj may be nil. It is not changed or kept; the rule shares
// its strings.
func ReadMachineDrainRule(obj *unstructured.Unstructured) (MachineDrainRule, error) {
	if obj == nil {
		obj = &unstructured.Unstructured{}
	}
	r := ruleReader{rule: MachineDrainRule{namespace: obj.GetNamespace(), name: obj.GetName()}}
	spec := r.object(obj.Object, "spec")
	drain := r.object(spec, "spec", "drain")
	if drain["behavior"] != nil {
		text, _, err := contract.At[string]("behavior").Get(drain)
		r.failed(err, "spec", "drain")
		r.rule.behavior = behavior(text)
	}
	if drain["order"] != nil {
		order, found, err := contract.At[int32]("order").Get(drain)
		r.failed(err, "spec", "drain")
		if found {
			r.rule.order = &order
		}
	}
	for _, s := range r.entries(spec, "machines", "clusterSelector") {
		r.rule.machines = append(r.rule.machines, machineSelector{Selector: s.own, ClusterSelector: s.outer})
	}
	for _, s := range r.entries(spec, "pods", "namespaceSelector") {
		r.rule.pods = append(r.rule.pods, podSelector{Selector: s.own, NamespaceSelector: s.outer})
	}
	errs := make([]error, 0, len(r.rule.unread))
	for _, problem := range r.rule.unread {
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
	r.rule.unread = append(r.rule.unread, &drainRuleError{rule: r.rule.key(), field: path.String(), err: err})
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
		s, _, err := contract.At[*metav1.LabelSelector](key).Get(members)
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
