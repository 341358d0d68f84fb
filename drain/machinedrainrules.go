package drain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// MachineDrainRules are MachineDrainRules with parsed selectors. They are immutable and safe for concurrent use; nil means no rules.
//
// The first rule by name that selects a Pod decides about it, as in Cluster API. An invalid rule affects only the Pods that it may select:
// a Pod that its valid selectors exclude, and a Pod that a rule with an earlier name selects, are drained as if it did not exist. A Pod
// that it may select is held with [ReasonDrainRuleUnclear] until a person corrects or deletes the rule, because an eviction cannot be
// undone. (Cluster API stops every drain in the Namespace instead.) A rule whose spec could not be read may select every Pod.
type MachineDrainRules struct {
	rules []*drainRule
}

// NewMachineDrainRules parses rules, in any order. They are not changed or kept.
func NewMachineDrainRules(rules []MachineDrainRule) *MachineDrainRules {
	s := &MachineDrainRules{rules: make([]*drainRule, 0, len(rules))}
	for i := range rules {
		s.rules = append(s.rules, newDrainRule(&rules[i]))
	}
	slices.SortStableFunc(s.rules, func(a, b *drainRule) int { return compareKeys(a.key, b.key) })
	return s
}

// NeedNamespaces reports whether a rule selects Pods by the labels of their Namespaces.
func (s *MachineDrainRules) NeedNamespaces() bool {
	return slices.ContainsFunc(s.rules, func(r *drainRule) bool {
		return slices.ContainsFunc(r.pods, func(p pair) bool { return p.outer.valid != nil || p.outer.broken })
	})
}

// DrainedMachine is what rules need to know about the Machine that is drained.
type DrainedMachine struct {
	// Namespace is that of the Machine; rules of other Namespaces do not apply.
	Namespace string
	// Labels are those of the Machine.
	Labels map[string]string
	// ClusterLabels are those of its Cluster; nil for a Machine without a Cluster.
	ClusterLabels map[string]string
	// ClusterUnread says that the labels of the Cluster are unknown. Rules that ask for them hold the Pods that they select.
	ClusterUnread bool
}

// For returns the rules that apply, or may apply, to a Machine.
func (s *MachineDrainRules) For(m DrainedMachine) *MachineDrainRules {
	if s == nil {
		return nil
	}
	of := &MachineDrainRules{}
	for _, r := range s.rules {
		if r.key.Namespace != m.Namespace {
			continue
		}
		narrowed := *r
		narrowed.machine = anyOf(r.machines, func(p pair) answer {
			return min(p.own.matches(m.Labels, true), p.outer.matches(m.ClusterLabels, !m.ClusterUnread))
		})
		if narrowed.machine == no {
			continue
		}
		of.rules = append(of.rules, &narrowed)
	}
	return of
}

// NamespaceLabels returns the labels of a Namespace of the workload cluster; known is false if they were not read. It must not block, and
// is called at most once per Pod.
type NamespaceLabels func(namespace string) (labels map[string]string, known bool)

// Rule returns the [Rule] of the rules. Call For before; otherwise every rule with machine selectors is unclear. A rule with behavior Drain
// sets its order, and later rules decide. A Pod that no rule selects keeps its order. If the labels of a Namespace are unknown, a rule that
// asks for them holds the Pods that it may select. A nil function means that no Namespace was read. Terminating Pods are not held.
func (s *MachineDrainRules) Rule(namespaces NamespaceLabels) Rule {
	if s == nil || len(s.rules) == 0 {
		return func(_ *corev1.Pod, prev Verdict) (Verdict, error) { return prev, nil }
	}
	rules := s.rules
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if prev.Action != Undecided {
			return prev, nil
		}
		var of map[string]string
		known := false
		if namespaces != nil {
			of, known = namespaces(pod.Namespace)
		}
		for _, r := range rules {
			meant := min(r.machine, anyOf(r.pods, func(p pair) answer {
				return min(p.own.matches(pod.Labels, true), p.outer.matches(of, known))
			}))
			if meant != no {
				return r.decide(meant, pod, prev)
			}
		}
		return prev, nil
	}
}

func (c *drainRule) decide(meant answer, pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if meant == unclear {
		return c.hold(pod, prev), nil
	}
	prev.Order = 0
	switch c.behavior {
	case behaviorDrain:
		prev.Order = c.order
		return prev, nil
	case behaviorSkip:
		return skip(prev), nil
	case behaviorWaitCompleted:
		return waitCompleted(pod, prev)
	default:
		return c.hold(pod, prev), nil
	}
}

func (c *drainRule) hold(pod *corev1.Pod, prev Verdict) Verdict {
	if pod.DeletionTimestamp != nil {
		return prev
	}
	text := c.problem + "; correct or delete the rule"
	if c.problem == "" {
		text = fmt.Sprintf("MachineDrainRule %s asks for labels of the Pod's Namespace or of the Cluster that were not read", c.key)
	}
	return prev.decide(Deny, ReasonDrainRuleUnclear, "it is not clear whether the Pod may go: "+text)
}

// ClusterAPIRules returns rules that decide like the drain of Cluster API (capi-machine 3.2), in its order: mirror and DaemonSet Pods are
// ignored, then the drain label decides, then the MachineDrainRules of the Machine, and all other Pods are evicted. They differ where
// Cluster API has defects: completed Pods do not block (#12920), an unclear rule holds only its own Pods ([MachineDrainRules]), and
// finished Pods of a DaemonSet are ignored (#12640).
func ClusterAPIRules(ofMachine *MachineDrainRules, namespaces NamespaceLabels) []Rule {
	return []Rule{
		ignoreMirrorPods, ignoreDaemonSetPods, drainLabel, ofMachine.Rule(namespaces),
		waitForTerminating, evictFinished, evictRest,
	}
}
