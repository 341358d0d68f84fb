package drain

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
)

// MachineDrainRules are Cluster API's MachineDrainRules, sorted by name. They are immutable and safe for concurrent use; nil means no
// rules.
//
// The first rule by name that selects a Pod decides about it, as in Cluster API. An invalid rule affects only the Pods that it may select:
// a Pod that its valid selectors exclude, and a Pod that a rule with an earlier name selects, are drained as if it did not exist. A Pod
// that it may select is held with [ReasonDrainRuleUnclear] until a person corrects or deletes the rule, because an eviction cannot be
// undone. (Cluster API stops every drain in the Namespace instead.) A rule whose spec cannot be read may select every Pod of every Machine.
type MachineDrainRules []drainRule

type drainRule struct {
	key  types.NamespacedName
	spec drainRuleSpec
	// machine is whether the rule applies to the Machine; it is unclear before For.
	machine answer
	// problem is the first problem that makes the behavior or the selection of the rule unclear; empty if there is none.
	problem string
}

// drainRuleSpec is equal in the versions v1beta1 and v1beta2.
type drainRuleSpec struct {
	Drain struct {
		Behavior behavior `json:"behavior"`
		Order    *int32   `json:"order"` // applies only to behaviorDrain; nil means 0
	} `json:"drain"`
	Machines []drainRuleEntry `json:"machines"` // alternatives; none means all Machines in the Namespace of the rule
	Pods     []drainRuleEntry `json:"pods"`     // alternatives; none means all Pods of all Namespaces
}

// behavior is the treatment of the Pods of a rule, as Cluster API names it. Any other value makes a rule invalid.
type behavior string

const (
	behaviorDrain         behavior = "Drain"         // evict, in the rule's order
	behaviorSkip          behavior = "Skip"          // do not evict, do not wait
	behaviorWaitCompleted behavior = "WaitCompleted" // do not evict, wait for completion; always order 0
)

// drainRuleEntry selects the Machines or Pods that all its selectors match.
type drainRuleEntry struct {
	Selector          selector `json:"selector"`
	ClusterSelector   selector `json:"clusterSelector"`   // of Machines
	NamespaceSelector selector `json:"namespaceSelector"` // of Pods
}

// selector is a label selector; the zero value, null and an empty one match everything.
type selector struct {
	valid   labels.Selector
	invalid error // why it is unclear what it matches
}

// UnmarshalJSON implements json.Unmarshaler. Only a field of another type is an error.
func (s *selector) UnmarshalJSON(data []byte) error {
	var from metav1.LabelSelector
	err := json.Unmarshal(data, &from)
	if len(from.MatchLabels)+len(from.MatchExpressions) > 0 {
		s.valid, s.invalid = metav1.LabelSelectorAsSelector(&from)
	}
	return err
}

// answer is whether a selector selects an object. Unclear means that the selector is invalid or the labels were not read.
type answer uint8

const (
	no answer = iota
	unclear
	yes
)

// matches returns the answer for an object; known is false if its labels were not read.
func (s selector) matches(of map[string]string, known bool) answer {
	switch {
	case s.invalid != nil, s.valid != nil && !known:
		return unclear
	case s.valid != nil && !s.valid.Matches(labels.Set(of)):
		return no
	default:
		return yes
	}
}

// anyOf returns the best answer for alternative entries; no entries select everything.
func anyOf(entries []drainRuleEntry, each func(drainRuleEntry) answer) answer {
	if len(entries) == 0 {
		return yes
	}
	best := no
	for _, e := range entries {
		best = max(best, each(e))
	}
	return best
}

// ReadMachineDrainRules reads MachineDrainRules of v1beta1 or v1beta2, or of a kind with the same fields, in any order. Null means absent,
// as in Cluster API. The objects are not changed or retained.
func ReadMachineDrainRules(objects []unstructured.Unstructured) MachineDrainRules {
	rules := make(MachineDrainRules, 0, len(objects))
	for i := range objects {
		r := drainRule{key: types.NamespacedName{Namespace: objects[i].GetNamespace(), Name: objects[i].GetName()}}
		data, err := json.Marshal(objects[i].Object["spec"])
		if err == nil {
			err = json.Unmarshal(data, &r.spec)
		}
		if err != nil { // such a rule has no selector and no behavior, and holds every Pod
			r.spec, r.problem = drainRuleSpec{}, "spec: "+err.Error()
		}
		rules = append(rules, r)
	}
	return rules.checked()
}

func (s MachineDrainRules) checked() MachineDrainRules {
	for i := range s {
		r := &s[i]
		r.machine = anyOf(r.spec.Machines, func(drainRuleEntry) answer { return unclear })
		if r.problem = cmp.Or(r.problem, r.spec.problem()); r.problem != "" {
			r.problem = fmt.Sprintf("MachineDrainRule %s: %s", r.key, r.problem)
		}
	}
	slices.SortStableFunc(s, func(a, b drainRule) int { return compareKeys(a.key, b.key) })
	return s
}

func (s *drainRuleSpec) problem() string {
	if !slices.Contains([]behavior{behaviorDrain, behaviorSkip, behaviorWaitCompleted}, s.Drain.Behavior) {
		return fmt.Sprintf("spec.drain.behavior: unknown behavior %.64q", string(s.Drain.Behavior))
	}
	for i, e := range s.Machines {
		if err := cmp.Or(e.Selector.invalid, e.ClusterSelector.invalid); err != nil {
			return fmt.Sprintf("spec.machines[%d]: %s", i, err)
		}
	}
	for i, e := range s.Pods {
		if err := cmp.Or(e.Selector.invalid, e.NamespaceSelector.invalid); err != nil {
			return fmt.Sprintf("spec.pods[%d]: %s", i, err)
		}
	}
	return ""
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// NeedNamespaces reports whether a rule selects Pods by the labels of their Namespaces.
func (s MachineDrainRules) NeedNamespaces() bool {
	return slices.ContainsFunc(s, func(r drainRule) bool {
		return slices.ContainsFunc(r.spec.Pods, func(e drainRuleEntry) bool { return e.NamespaceSelector != (selector{}) })
	})
}

// DrainedMachine describes the drained Machine for rules.
type DrainedMachine struct {
	// Namespace is the namespace of the Machine; rules of other Namespaces do not apply.
	Namespace string
	// Labels are the labels of the Machine.
	Labels map[string]string
	// ClusterLabels are the labels of its Cluster; nil for a Machine without a Cluster.
	ClusterLabels map[string]string
	// ClusterUnread means that the labels of the Cluster are unknown. Rules that need them hold the Pods that they select.
	ClusterUnread bool
}

// For returns the rules that apply, or may apply, to a Machine.
func (s MachineDrainRules) For(m DrainedMachine) (of MachineDrainRules) {
	for _, r := range s {
		r.machine = anyOf(r.spec.Machines, func(e drainRuleEntry) answer {
			return min(e.Selector.matches(m.Labels, true), e.ClusterSelector.matches(m.ClusterLabels, !m.ClusterUnread))
		})
		if r.key.Namespace == m.Namespace && r.machine != no {
			of = append(of, r)
		}
	}
	return of
}

// NamespaceLabels returns the labels of a Namespace of the workload cluster; known is false if they were not read. It must not block, and
// is called at most once per Pod.
type NamespaceLabels func(namespace string) (labels map[string]string, known bool)

// Rule returns the [Rule] of the rules. Call For before; otherwise every rule with machine selectors is unclear. A rule with behavior Drain
// sets its order, and later rules decide. A Pod that no rule selects keeps its order. If the labels of a Namespace are unknown, a rule that
// needs them holds the Pods that it may select. A nil function means that no Namespace was read. Terminating Pods are not held.
func (s MachineDrainRules) Rule(namespaces NamespaceLabels) Rule {
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if prev.Action != Undecided || len(s) == 0 {
			return prev, nil
		}
		var of map[string]string
		known := false
		if namespaces != nil {
			of, known = namespaces(pod.Namespace)
		}
		for i := range s {
			meant := min(s[i].machine, anyOf(s[i].spec.Pods, func(e drainRuleEntry) answer {
				return min(e.Selector.matches(pod.Labels, true), e.NamespaceSelector.matches(of, known))
			}))
			if meant != no {
				return s[i].decide(meant, pod, prev)
			}
		}
		return prev, nil
	}
}

func (r *drainRule) decide(meant answer, pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if meant == unclear {
		return r.hold(pod, prev), nil
	}
	prev.Order = 0
	switch r.spec.Drain.Behavior {
	case behaviorDrain:
		prev.Order = ptr.Deref(r.spec.Drain.Order, 0)
		return prev, nil
	case behaviorSkip: // the webhook of Cluster API rejects an order here, and its drain ignores it
		return skip(prev), nil
	case behaviorWaitCompleted:
		return waitCompleted(pod, prev)
	default:
		return r.hold(pod, prev), nil
	}
}

func (r *drainRule) hold(pod *corev1.Pod, prev Verdict) Verdict {
	if pod.DeletionTimestamp != nil {
		return prev
	}
	text := r.problem + "; correct or delete the rule"
	if r.problem == "" {
		text = fmt.Sprintf("MachineDrainRule %s needs labels of the Pod's Namespace or of the Cluster that were not read", r.key)
	}
	return prev.decide(Deny, ReasonDrainRuleUnclear, "it is not clear whether the Pod may go: "+text)
}

// ClusterAPIRules returns rules that decide like the drain of Cluster API (capi-machine 3.2), in its order: mirror and DaemonSet Pods are
// ignored, then the drain label decides, then the MachineDrainRules of the Machine, and all other Pods are evicted. They avoid defects of
// Cluster API: completed Pods do not block (#12920), an unclear rule holds only its own Pods ([MachineDrainRules]), and finished Pods of a
// DaemonSet are ignored (#12640).
func ClusterAPIRules(ofMachine MachineDrainRules, namespaces NamespaceLabels) []Rule {
	return []Rule{
		ignoreMirrorPods, ignoreDaemonSetPods, drainLabel, ofMachine.Rule(namespaces),
		waitForTerminating, evictFinished, evictRest,
	}
}
