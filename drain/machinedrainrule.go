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

// Behavior is what a [MachineDrainRule] does with its Pods, in the words of Cluster API.
type Behavior string

// The behaviors of Cluster API. Any other value makes a rule invalid.
const (
	BehaviorDrain         Behavior = "Drain"         // evict, in the rule's order
	BehaviorSkip          Behavior = "Skip"          // do not evict, do not wait
	BehaviorWaitCompleted Behavior = "WaitCompleted" // do not evict, wait for completion; always order 0
)

// MachineDrainRule is Cluster API's MachineDrainRule as a plain value. The versions v1beta1 and v1beta2 are equal.
type MachineDrainRule struct {
	Namespace, Name string
	Behavior        Behavior
	// Order applies only to BehaviorDrain; nil means 0.
	Order *int32
	// Machines are alternatives; none means all Machines in the Namespace of the rule.
	Machines []MachineSelector
	// Pods are alternatives; none means all Pods of all Namespaces.
	Pods []PodSelector
	// Unread are the fields that [ReadMachineDrainRule] could not read. It replaces selectors that it could not read by invalid selectors, so
	// that the rule does not select everything or nothing.
	Unread []*DrainRuleError
}

// MachineSelector selects the Machines that both selectors match. Nil and empty selectors match everything.
type MachineSelector struct {
	Selector        *metav1.LabelSelector
	ClusterSelector *metav1.LabelSelector
}

// PodSelector selects the Pods that both selectors match. Nil and empty selectors match everything.
type PodSelector struct {
	Selector          *metav1.LabelSelector
	NamespaceSelector *metav1.LabelSelector
}

// ErrInvalidDrainRule matches, with errors.Is, every [DrainRuleError].
var ErrInvalidDrainRule = errors.New("invalid MachineDrainRule")

// DrainRuleError says which field of a MachineDrainRule is invalid. It matches [ErrInvalidDrainRule] and what Err matches,
// such as contract.ErrWrongType.
type DrainRuleError struct {
	Rule types.NamespacedName
	// Field is the path in the object, for example "spec.pods[0].selector".
	Field string
	Err   error
}

// Error names the rule, the field, its problem, and what a person can do.
func (e *DrainRuleError) Error() string {
	text := e.Err.Error()
	if wrong, ok := errors.AsType[*contract.FieldError](e.Err); ok {
		text = fmt.Sprintf("want %s, found %s", wrong.Want, wrong.Got) // Field already contains its path
	}
	return fmt.Sprintf("MachineDrainRule %s: %s: %s; correct or delete the rule", e.Rule, e.Field, text)
}

// Is makes errors.Is(err, ErrInvalidDrainRule) true.
func (e *DrainRuleError) Is(target error) bool { return target == ErrInvalidDrainRule }

// Unwrap returns Err.
func (e *DrainRuleError) Unwrap() error { return e.Err }

func (r *MachineDrainRule) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// drainRule is a rule with parsed selectors.
type drainRule struct {
	key      types.NamespacedName
	behavior Behavior
	order    int32
	machines []pair
	pods     []pair
	// machine says whether the rule applies to the Machine; it is unclear until the Machine is known.
	machine answer
	// problems are all problems; holding is the text of the first one that makes the behavior or the selection of the rule unclear.
	problems []*DrainRuleError
	holding  string
}

const orderField = "spec.drain.order"

func newDrainRule(r *MachineDrainRule) *drainRule {
	c := &drainRule{key: r.key(), behavior: r.Behavior, machine: unclear, problems: slices.Clone(r.Unread)}
	if len(r.Unread) > 0 {
		c.holding = r.Unread[0].Error()
	}
	if slices.ContainsFunc(r.Unread, func(e *DrainRuleError) bool { return e.Field == orderField }) {
		c.behavior = ""
	}
	switch r.Behavior {
	case BehaviorDrain:
		if r.Order != nil {
			c.order = *r.Order
		}
	case BehaviorSkip, BehaviorWaitCompleted:
		if r.Order != nil { // the webhook of Cluster API refuses it, and its drain ignores the order
			c.problems = append(c.problems, &DrainRuleError{c.key, orderField, fmt.Errorf("not allowed with behavior %s", r.Behavior)})
		}
	default:
		c.problem("spec.drain.behavior", fmt.Errorf("unknown behavior %.64q", string(r.Behavior)))
	}
	for i, m := range r.Machines {
		at := fmt.Sprintf("spec.machines[%d].", i)
		c.machines = append(c.machines, pair{c.selector(at+"selector", m.Selector), c.selector(at+"clusterSelector", m.ClusterSelector)})
	}
	for i, p := range r.Pods {
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
	if slices.ContainsFunc(c.problems, func(e *DrainRuleError) bool { return e.Field == field }) {
		return // it was not read, which is a problem already
	}
	problem := &DrainRuleError{Rule: c.key, Field: field, Err: err}
	c.problems = append(c.problems, problem)
	if c.holding == "" {
		c.holding = problem.Error()
	}
}

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
