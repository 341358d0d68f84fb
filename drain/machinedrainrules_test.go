package drain

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
)

// newSelector reads a selector as a rule has it.
func newSelector(from *metav1.LabelSelector) (s selector) {
	data, _ := json.Marshal(from)
	_ = s.UnmarshalJSON(data)
	return s
}

func labelsAre(key, value string) selector {
	return newSelector(&metav1.LabelSelector{MatchLabels: map[string]string{key: value}})
}

func expression(key string, operator metav1.LabelSelectorOperator, values ...string) selector {
	return newSelector(&metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}},
	})
}

// typo is a selector that the API server stores although it is invalid.
func typo() selector { return expression("app", "in", "db") }

func drainRuleFor(name string, behavior behavior, pods ...drainRuleEntry) drainRule {
	rule := drainRule{key: types.NamespacedName{Namespace: "fleet", Name: name}}
	rule.spec.Drain.Behavior, rule.spec.Pods = behavior, pods
	return rule
}

// rulesOf are rules as they are when they were read.
func rulesOf(rules ...drainRule) MachineDrainRules {
	return MachineDrainRules(slices.Clone(rules)).checked()
}

// read knows the namespaces default (team=web) and other (no labels).
func read(namespace string) (map[string]string, bool) {
	known := map[string]map[string]string{"default": {"team": "web"}, "other": nil}
	of, found := known[namespace]
	return of, found
}

func TestMachineDrainRules_OnePodOneDecision(t *testing.T) {
	web := drainRuleEntry{Selector: labelsAre("app", "web")}
	db := drainRuleEntry{Selector: labelsAre("app", "db")}
	inTeam := func(team string) drainRuleEntry {
		return drainRuleEntry{Selector: labelsAre("app", "web"), NamespaceSelector: labelsAre("team", team)}
	}
	ordered := func(r drainRule, order int32) drainRule { r.spec.Drain.Order = &order; return r }
	elsewhere := func(p *corev1.Pod) { p.Namespace = "unread" }
	cases := map[string]struct {
		reason string
		rules  []drainRule
		pod    *corev1.Pod
		want   Action
		order  int32
		why    Reason
	}{
		"no rule drains": {pod: newPod("p"), want: Evict, why: ReasonEvictable},
		"a rule that means nothing else": {rules: []drainRule{drainRuleFor("a", behaviorSkip, db)}, pod: newPod("p"), want: Evict,
			why: ReasonEvictable},
		"Skip": {rules: []drainRule{drainRuleFor("a", behaviorSkip, web)}, pod: newPod("p"),
			want: Ignore, why: ReasonSkipped},
		"no pod selectors mean all pods": {rules: []drainRule{drainRuleFor("a", behaviorSkip)}, pod: newPod("p"), want: Ignore,
			why: ReasonSkipped},
		"an empty entry means all pods": {
			rules: []drainRule{drainRuleFor("a", behaviorSkip, drainRuleEntry{Selector: newSelector(&metav1.LabelSelector{})})}, pod: newPod("p"),
			want: Ignore, why: ReasonSkipped},
		"entries are alternatives": {rules: []drainRule{drainRuleFor("a", behaviorSkip, db, web)}, pod: newPod("p"),
			want: Ignore, why: ReasonSkipped},
		"Drain gives its order": {rules: []drainRule{ordered(drainRuleFor("a", behaviorDrain, web), -3)},
			pod: newPod("p"), want: Evict, order: -3, why: ReasonEvictable},
		"Drain without an order is 0": {rules: []drainRule{drainRuleFor("a", behaviorDrain, web)}, pod: newPod("p"),
			want: Evict, why: ReasonEvictable},
		"WaitCompleted": {rules: []drainRule{drainRuleFor("a", behaviorWaitCompleted, web)}, pod: newPod("p"),
			want: Wait, why: ReasonWaitCompleted},
		"WaitCompleted of a completed pod": {rules: []drainRule{drainRuleFor("a", behaviorWaitCompleted)},
			pod: newPod("p", inPhase(corev1.PodFailed)), want: Ignore, why: ReasonCompleted},
		"the first by name decides": {
			rules: []drainRule{drainRuleFor("b", behaviorSkip), ordered(drainRuleFor("a", behaviorDrain), 9)}, pod: newPod("p"), want: Evict,
			order: 9, why: ReasonEvictable},
		"names are compared as bytes": {reason: "capi sorts with <",
			rules: []drainRule{drainRuleFor("r2", behaviorSkip), ordered(drainRuleFor("r10", behaviorDrain), 9)}, pod: newPod("p"),
			want: Evict, order: 9, why: ReasonEvictable},
		"the pod's label comes before": {rules: []drainRule{drainRuleFor("a", behaviorSkip)},
			pod: newPod("p", labeled("cluster.x-k8s.io/drain", "wait-completed")), want: Wait, why: ReasonWaitCompleted},
		"DaemonSet pods come before": {rules: []drainRule{drainRuleFor("a", behaviorDrain)},
			pod: newPod("p", ownedBy("apps/v1", "DaemonSet")), want: Ignore, why: ReasonDaemonSetPod},
		"both selectors of an entry count": {rules: []drainRule{drainRuleFor("a", behaviorSkip, inTeam("db"))}, pod: newPod("p"),
			want: Evict, why: ReasonEvictable},
		"a namespace selector that matches": {rules: []drainRule{drainRuleFor("a", behaviorSkip, inTeam("web"))}, pod: newPod("p"),
			want: Ignore, why: ReasonSkipped},
		"an unread namespace holds": {reason: "unread is not absent",
			rules: []drainRule{drainRuleFor("a", behaviorSkip, inTeam("web"))}, pod: newPod("p", elsewhere), want: Deny,
			why: ReasonDrainRuleUnclear},
		"an unread namespace that is not needed": {rules: []drainRule{drainRuleFor("a", behaviorSkip, web)}, pod: newPod("p", elsewhere),
			want: Ignore, why: ReasonSkipped},
		"an unread namespace, other pods": {rules: []drainRule{drainRuleFor("a", behaviorSkip, inTeam("web"))},
			pod: newPod("p", elsewhere, labeled("app", "db")), want: Evict, why: ReasonEvictable},
		"a broken selector holds": {rules: []drainRule{drainRuleFor("a", behaviorSkip, drainRuleEntry{Selector: typo()})},
			pod: newPod("p"), want: Deny, why: ReasonDrainRuleUnclear},
		"but not another namespace": {
			rules: []drainRule{drainRuleFor("a", behaviorSkip, drainRuleEntry{Selector: typo(), NamespaceSelector: labelsAre("team", "db")})},
			pod:   newPod("p"), want: Evict, why: ReasonEvictable},
		"nor what another entry decides": {rules: []drainRule{drainRuleFor("a", behaviorSkip, drainRuleEntry{Selector: typo()}, web)},
			pod: newPod("p"), want: Ignore, why: ReasonSkipped},
		"nor what an earlier rule decides": {
			rules: []drainRule{drainRuleFor("b", behaviorSkip, drainRuleEntry{Selector: typo()}), drainRuleFor("a", behaviorDrain, web)},
			pod:   newPod("p"), want: Evict, why: ReasonEvictable},
		"a later rule does not free the pod": {
			rules: []drainRule{drainRuleFor("a", behaviorSkip, drainRuleEntry{Selector: typo()}), drainRuleFor("b", behaviorDrain, web)},
			pod:   newPod("p"), want: Deny, why: ReasonDrainRuleUnclear},
		"an unknown behavior holds its pods": {rules: []drainRule{drainRuleFor("a", "Spare", web)}, pod: newPod("p"), want: Deny,
			why: ReasonDrainRuleUnclear},
		"and no others": {rules: []drainRule{drainRuleFor("a", "Spare", db)}, pod: newPod("p"), want: Evict,
			why: ReasonEvictable},
		"a terminating pod is not held": {rules: []drainRule{drainRuleFor("a", "Spare", web)}, pod: newPod("p", terminating),
			want: Wait, why: ReasonTerminating},
		"an order with Skip holds no Pod": {reason: "the webhook refuses it, the drain ignores it",
			rules: []drainRule{ordered(drainRuleFor("a", behaviorSkip, web), 5)}, pod: newPod("p"), want: Ignore, why: ReasonSkipped},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rules := rulesOf(tc.rules...).For(DrainedMachine{Namespace: "fleet"})
			got := Decide(tc.pod, ClusterAPIRules(rules, read))
			if got.Action != tc.want || got.Reason != tc.why || got.Order != tc.order {
				t.Errorf("%s: want %s/%s order %d, got %+v", tc.reason, tc.want, tc.why, tc.order, got)
			}
		})
	}
}

func TestMachineDrainRules_For(t *testing.T) {
	of := func(name string, machines ...drainRuleEntry) drainRule {
		rule := drainRuleFor(name, behaviorSkip)
		rule.spec.Machines = machines
		return rule
	}
	linux := drainRuleEntry{Selector: labelsAre("os", "linux")}
	production := drainRuleEntry{ClusterSelector: labelsAre("stage", "production")}
	elsewhere := of("elsewhere")
	elsewhere.key.Namespace = "other"
	all := rulesOf(
		of("g-typo", drainRuleEntry{Selector: typo(), ClusterSelector: production.ClusterSelector}), of("a-all"), of("b-linux", linux),
		of("c-production", production),
		of("d-either", linux, production), of("e-both", drainRuleEntry{Selector: linux.Selector, ClusterSelector: production.ClusterSelector}),
		of("f-not-production", drainRuleEntry{ClusterSelector: expression("stage", "NotIn", "production")}),
		elsewhere,
	)
	cases := map[string]struct {
		machine DrainedMachine
		want    string
	}{
		"a Machine without anything": {DrainedMachine{Namespace: "fleet"}, "a-all f-not-production"},
		"labels of the Machine": {DrainedMachine{Namespace: "fleet", Labels: map[string]string{"os": "linux"}},
			"a-all b-linux d-either f-not-production"},
		"labels of the Cluster": {DrainedMachine{Namespace: "fleet", ClusterLabels: map[string]string{"stage": "production"}},
			"a-all c-production d-either g-typo"},
		"an unread Cluster may be meant": {DrainedMachine{Namespace: "fleet", ClusterUnread: true},
			"a-all c-production d-either f-not-production g-typo"},
		"rules of other namespaces are out":  {DrainedMachine{Namespace: "other"}, "elsewhere"},
		"a namespace without rules has none": {DrainedMachine{Namespace: "third"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, key := range namesOf(all.For(tc.machine)) {
				got = append(got, key.Name)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}

	verdict := func(rules ...drainRule) func(DrainedMachine) Action {
		return func(m DrainedMachine) Action {
			return Decide(newPod("p"), ClusterAPIRules(rulesOf(rules...).For(m), read)).Action
		}
	}
	require.Equal(t, Deny, verdict(of("a", production))(DrainedMachine{Namespace: "fleet", ClusterUnread: true}))
	require.Equal(t, Deny, verdict(
		of("a", drainRuleEntry{Selector: typo()}))(DrainedMachine{Namespace: "fleet", Labels: map[string]string{"os": "linux"}}))
	require.Equal(t, Evict, verdict(
		of("a", drainRuleEntry{Selector: typo(), ClusterSelector: production.ClusterSelector}))(DrainedMachine{Namespace: "fleet"}))
	require.Equal(t, Ignore, verdict(
		of("a", production))(DrainedMachine{Namespace: "fleet", ClusterLabels: map[string]string{"stage": "production"}}))
	require.Equal(t, Deny, Decide(newPod("p"), ClusterAPIRules(rulesOf(of("a", linux)), read)).Action,
		"without a Machine it is not clear whether the rule applies")
}

func TestMachineDrainRules_AnInvalidRuleIsNamedAndHurtsOnlyItself(t *testing.T) {
	odd := drainRuleFor("c-odd", behaviorSkip, drainRuleEntry{Selector: labelsAre("app", "odd")})
	odd.spec.Drain.Order = ptr.To[int32](1)
	rules := rulesOf(
		drainRuleFor("b-good", behaviorSkip, drainRuleEntry{Selector: labelsAre("app", "web")}),
		drainRuleFor("a-bad", "Spare", drainRuleEntry{Selector: labelsAre("tier", "db")}), odd,
	)
	want := []string{`MachineDrainRule fleet/a-bad: spec.drain.behavior: unknown behavior "Spare"`}
	if diff := cmp.Diff(want, problemsOf(rules)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pods := []*corev1.Pod{newPod("web"), newPod("db", labeled("tier", "db")), newPod("rest", labeled("app", "rest")),
		newPod("odd", labeled("app", "odd"))}
	plan := func(rules MachineDrainRules) []string {
		rules = rules.For(DrainedMachine{Namespace: "fleet"})
		return lines(Planner{Rules: ClusterAPIRules(rules, nil)}.Plan([]NodePods{{Node: testNode, Pods: pods}}, Facts{}))
	}
	held := []string{
		"node-a db Deny DrainRuleUnclear", "node-a odd Ignore Skipped", "node-a rest Evict Evictable", "node-a web Ignore Skipped",
	}
	if diff := cmp.Diff(held, plan(rules)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got := Decide(pods[1], ClusterAPIRules(rules.For(DrainedMachine{Namespace: "fleet"}), nil)).Message
	require.Equal(t, "it is not clear whether the Pod may go: "+want[0]+"; correct or delete the rule", got)
}

func TestMachineDrainRules_NilMeansNoRules(t *testing.T) {
	var none MachineDrainRules
	require.Empty(t, namesOf(none))
	require.Equal(t, Evict, Decide(newPod("p"), ClusterAPIRules(none.For(DrainedMachine{}), nil)).Action)
	require.Equal(t, Deny, Decide(newPod("p"), ClusterAPIRules(rulesOf(
		drainRuleFor("a", behaviorSkip, drainRuleEntry{NamespaceSelector: labelsAre("team", "web")}),
	).For(DrainedMachine{Namespace: "fleet"}), nil)).Action, "the namespaces were not read")
}

func TestMachineDrainRules_TheOrderOfTheListDoesNotMatter(t *testing.T) {
	rules := []drainRule{
		drainRuleFor("c", behaviorSkip), drainRuleFor("a", behaviorWaitCompleted, drainRuleEntry{Selector: typo()}),
		drainRuleFor("b", behaviorDrain, drainRuleEntry{Selector: labelsAre("app", "web")}), drainRuleFor("d", ""),
	}
	want := rulesOf(rules...)
	random := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		random.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		got := rulesOf(rules...)
		require.Equal(t, namesOf(want), namesOf(got))
		require.Equal(t, problemsOf(want), problemsOf(got))
	}
}

// namesOf returns the names of rules in their order.
func namesOf(rules MachineDrainRules) (names []types.NamespacedName) {
	for _, r := range rules {
		names = append(names, r.key)
	}
	return names
}

func problemsOf(rules MachineDrainRules) (problems []string) {
	for _, r := range rules {
		if r.problem != "" {
			problems = append(problems, r.problem)
		}
	}
	return problems
}
