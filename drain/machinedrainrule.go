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
