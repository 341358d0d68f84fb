package drain

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
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
	key  types.NamespacedName
	spec drainRuleSpec
	// unread says why the spec could not be read. Such a rule may be about every Pod of every Machine.
	unread error
}

type drainRuleSpec struct {
	Drain struct {
		Behavior behavior `json:"behavior"`
		Order    *int32   `json:"order"` // applies only to behaviorDrain; nil means 0
	} `json:"drain"`
	Machines []drainRuleEntry `json:"machines"` // alternatives; none means all Machines in the Namespace of the rule
	Pods     []drainRuleEntry `json:"pods"`     // alternatives; none means all Pods of all Namespaces
}

// drainRuleEntry selects the Machines or Pods that all its selectors match. Nil and empty selectors match everything.
type drainRuleEntry struct {
	Selector          *metav1.LabelSelector `json:"selector"`
	ClusterSelector   *metav1.LabelSelector `json:"clusterSelector"`   // of Machines
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"` // of Pods
}

// ReadMachineDrainRule reads a MachineDrainRule of v1beta1 or v1beta2, or of a kind with the same fields. Use the returned rule also with
// an error, because without it the Pods that it protects are evicted: see [MachineDrainRules]. Null means absent, as for Cluster API. obj
// may be nil. It is not changed or kept.
func ReadMachineDrainRule(obj *unstructured.Unstructured) (MachineDrainRule, error) {
	if obj == nil {
		obj = &unstructured.Unstructured{}
	}
	rule := MachineDrainRule{key: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
	data, err := json.Marshal(obj.Object["spec"])
	if err == nil {
		err = json.Unmarshal(data, &rule.spec)
	}
	if err != nil {
		rule.unread = fmt.Errorf("MachineDrainRule %s: spec: %w", rule.key, err)
	}
	return rule, rule.unread
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
	// problem is the first one that makes the behavior or the selection of the rule unclear.
	problem string
}

func newDrainRule(r *MachineDrainRule) *drainRule {
	c := &drainRule{key: r.key, behavior: r.spec.Drain.Behavior, machine: unclear}
	if r.unread != nil {
		anything := []pair{{own: selector{broken: true}}}
		c.machines, c.pods, c.problem = anything, anything, r.unread.Error()
		return c
	}
	switch c.behavior {
	case behaviorDrain:
		c.order = ptr.Deref(r.spec.Drain.Order, 0)
	case behaviorSkip, behaviorWaitCompleted: // the webhook of Cluster API refuses an order, and its drain ignores it
	default:
		c.invalid("spec.drain.behavior", fmt.Errorf("unknown behavior %.64q", string(c.behavior)))
	}
	c.machines, c.pods = c.pairs("spec.machines", r.spec.Machines), c.pairs("spec.pods", r.spec.Pods)
	if len(c.machines) == 0 {
		c.machine = yes
	}
	return c
}

func (c *drainRule) pairs(field string, entries []drainRuleEntry) []pair {
	pairs := make([]pair, 0, len(entries))
	for i, e := range entries {
		at := fmt.Sprintf("%s[%d]", field, i)
		pairs = append(pairs, pair{c.selector(at, e.Selector), c.selector(at, cmp.Or(e.ClusterSelector, e.NamespaceSelector))})
	}
	return pairs
}

// selector parses a selector; nil and empty ones match everything.
func (c *drainRule) selector(field string, from *metav1.LabelSelector) selector {
	if from == nil || len(from.MatchLabels)+len(from.MatchExpressions) == 0 {
		return selector{}
	}
	parsed, err := metav1.LabelSelectorAsSelector(from)
	if err != nil {
		c.invalid(field, err)
		return selector{broken: true}
	}
	return selector{valid: parsed}
}

func (c *drainRule) invalid(field string, err error) {
	if c.problem == "" {
		c.problem = fmt.Sprintf("MachineDrainRule %s: %s: %s", c.key, field, err)
	}
}

// answer is whether a selector selects an object. Unclear means that the selector is invalid or the labels were not read.
type answer uint8

const (
	no answer = iota
	unclear
	yes
)

// selector is a label selector; the zero value matches everything.
type selector struct {
	valid  labels.Selector
	broken bool // it is not clear what it matches
}

// matches answers for an object; known is false if its labels were not read.
func (s selector) matches(of map[string]string, known bool) answer {
	switch {
	case s.broken, s.valid != nil && !known:
		return unclear
	case s.valid != nil && !s.valid.Matches(labels.Set(of)):
		return no
	default:
		return yes
	}
}

// pair is one entry of a rule; both selectors have to match.
type pair struct{ own, outer selector }

// anyOf answers for alternative entries; no entries select everything.
func anyOf(pairs []pair, each func(pair) answer) answer {
	if len(pairs) == 0 {
		return yes
	}
	best := no
	for _, p := range pairs {
		best = max(best, each(p))
	}
	return best
}
