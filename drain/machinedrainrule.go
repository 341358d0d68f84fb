package drain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// Behavior is what a [MachineDrainRule] wants for its pods, in Cluster API's words.
type Behavior string

// The behaviors that Cluster API knows. Any other value makes a rule invalid.
const (
	BehaviorDrain         Behavior = "Drain"         // evict, in the rule's order
	BehaviorSkip          Behavior = "Skip"          // leave alone, do not wait
	BehaviorWaitCompleted Behavior = "WaitCompleted" // leave alone, wait for completion; always order 0
)

// MachineDrainRule is Cluster API's MachineDrainRule as a plain value; its versions v1beta1 and v1beta2 say the same.
type MachineDrainRule struct {
	Namespace, Name string
	Behavior        Behavior
	// Order counts with BehaviorDrain only; nil means 0.
	Order *int32
	// Machines are alternatives; none means all Machines of the rule's namespace.
	Machines []MachineSelector
	// Pods are alternatives; none means all pods of all namespaces.
	Pods []PodSelector
	// Unread is what [ReadMachineDrainRule] could not read. Selectors that were not read stand in the value as selectors that
	// are invalid, so that the rule does not seem to mean everything or nothing.
	Unread []*DrainRuleError
}

// MachineSelector means the Machines that both selectors match; nil and empty selectors match everything.
type MachineSelector struct {
	Selector        *metav1.LabelSelector
	ClusterSelector *metav1.LabelSelector
}

// PodSelector means the pods that both selectors match; nil and empty selectors match everything.
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
	// Field is the place in the object, as in "spec.pods[0].selector".
	Field string
	Err   error
}

// Error names the rule, the field, what is wrong with it, and what to do.
func (e *DrainRuleError) Error() string {
	text := e.Err.Error()
	if wrong, ok := errors.AsType[*contract.FieldError](e.Err); ok {
		text = fmt.Sprintf("want %s, found %s", wrong.Want, wrong.Got) // its path is the end of Field
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

// drainRule is a rule made ready for many pods.
type drainRule struct {
	key      types.NamespacedName
	behavior Behavior
	order    int32
	machines []pair
	pods     []pair
	// machine is whether the rule applies to the Machine; unclear until somebody says which Machine.
	machine answer
	// problems are all; holding is the text of the first that makes it unclear what the rule wants or whom it means.
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
		if r.Order != nil { // nothing is unclear: Cluster API's webhook refuses it, its drain ignores the order
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
		return // it was not read, and that is said already
	}
	problem := &DrainRuleError{Rule: c.key, Field: field, Err: err}
	c.problems = append(c.problems, problem)
	if c.holding == "" {
		c.holding = problem.Error()
	}
}
