package drain

import (
	"slices"
	"strings"
	"testing"

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

// capi are the rules of Cluster API with these for the Machine.
func capi(rules ...drainRule) []Rule {
	return ClusterAPIRules(rulesOf(rules...).For(DrainedMachine{Namespace: "fleet"}), read)
}

func TestDrainRules(t *testing.T) {
	web, db := drainRuleEntry{Selector: labelsAre("app", "web")}, drainRuleEntry{Selector: labelsAre("app", "db")}
	broken := drainRuleEntry{Selector: typo()}
	elsewhereBroken := drainRuleEntry{Selector: typo(), NamespaceSelector: labelsAre("team", "db")}
	inTeam := func(team string) drainRuleEntry {
		return drainRuleEntry{Selector: labelsAre("app", "web"), NamespaceSelector: labelsAre("team", team)}
	}
	skips := func(pods ...drainRuleEntry) drainRule { return drainRuleFor("a", behaviorSkip, pods...) }
	drains := func(name string, order int32, pods ...drainRuleEntry) drainRule {
		r := drainRuleFor(name, behaviorDrain, pods...)
		r.spec.Drain.Order = &order
		return r
	}
	spares := func(of drainRuleEntry) drainRule { return drainRuleFor("a", "Spare", of) }
	ordered := skips(web) // the webhook of Cluster API refuses it, its drain ignores the order
	ordered.spec.Drain.Order = ptr.To[int32](5)
	completes, earlier := drainRuleFor("a", behaviorWaitCompleted), drainRuleFor("b", behaviorSkip, broken)
	elsewhere := func(p *corev1.Pod) { p.Namespace = "unread" }
	p := newPod("p")
	const skipped, evicted, unclear, ninth = "Ignore Skipped", "Evict Evictable", "Deny DrainRuleUnclear", "Evict Evictable 9"
	decide(t, brief, map[string]ruling{
		"no rule drains":                         {p, capi(), evicted},
		"a rule that means nothing else":         {p, capi(skips(db)), evicted},
		"Skip":                                   {p, capi(skips(web)), skipped},
		"no pod selectors mean all pods":         {p, capi(skips()), skipped},
		"an empty entry means all pods":          {p, capi(skips(drainRuleEntry{Selector: newSelector(&metav1.LabelSelector{})})), skipped},
		"entries are alternatives":               {p, capi(skips(db, web)), skipped},
		"Drain gives its order":                  {p, capi(drains("a", -3, web)), "Evict Evictable -3"},
		"Drain without an order is 0":            {p, capi(drainRuleFor("a", behaviorDrain, web)), evicted},
		"WaitCompleted":                          {p, capi(completes), "Wait WaitCompleted"},
		"WaitCompleted of a completed pod":       {newPod("p", inPhase(corev1.PodFailed)), capi(completes), "Ignore Completed"},
		"the first by name decides":              {p, capi(drainRuleFor("b", behaviorSkip), drains("a", 9)), ninth},
		"names are compared as bytes":            {p, capi(drainRuleFor("r2", behaviorSkip), drains("r10", 9)), ninth},
		"the pod's label comes before":           {newPod("p", labeled(drainLabelKey, "wait-completed")), capi(skips()), "Wait WaitCompleted"},
		"DaemonSet pods come before":             {newPod("p", byDaemonSet), capi(drains("a", 0)), "Ignore DaemonSetPod"},
		"both selectors of an entry count":       {p, capi(skips(inTeam("db"))), evicted},
		"a namespace selector that matches":      {p, capi(skips(inTeam("web"))), skipped},
		"an unread namespace holds":              {newPod("p", elsewhere), capi(skips(inTeam("web"))), unclear},
		"an unread namespace that is not needed": {newPod("p", elsewhere), capi(skips(web)), skipped},
		"an unread namespace, other pods":        {newPod("p", elsewhere, labeled("app", "db")), capi(skips(inTeam("web"))), evicted},
		"a broken selector holds":                {p, capi(skips(broken)), unclear},
		"but not another namespace":              {p, capi(skips(elsewhereBroken)), evicted},
		"nor what another entry decides":         {p, capi(skips(broken, web)), skipped},
		"nor what an earlier rule decides":       {p, capi(earlier, drains("a", 0, web)), evicted},
		"a later rule does not free the pod":     {p, capi(skips(broken), drains("b", 0, web)), unclear},
		"an unknown behavior holds its pods":     {p, capi(spares(web)), unclear},
		"and no others":                          {p, capi(spares(db)), evicted},
		"a terminating pod is not held":          {newPod("p", terminating), capi(spares(web)), "Wait Terminating"},
		"an order with Skip holds no Pod":        {p, capi(ordered), skipped},
		"no namespaces were read": {p, ClusterAPIRules(rulesOf(
			skips(drainRuleEntry{NamespaceSelector: labelsAre("team", "web")})).For(DrainedMachine{Namespace: "fleet"}), nil), unclear},
		"nil means no rules": {p, ClusterAPIRules(MachineDrainRules(nil).For(DrainedMachine{}), nil), evicted},
	})
}

func TestDrainRulesFor(t *testing.T) {
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
	for name, tc := range map[string]struct {
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
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, key := range namesOf(all.For(tc.machine)) {
				got = append(got, key.Name)
			}
			require.Equal(t, tc.want, strings.Join(got, " "))
		})
	}

	typed := drainRuleEntry{Selector: typo()}
	typedIn := drainRuleEntry{Selector: typo(), ClusterSelector: production.ClusterSelector}
	linuxMachine := DrainedMachine{Namespace: "fleet", Labels: map[string]string{"os": "linux"}}
	unread := DrainedMachine{Namespace: "fleet", ClusterUnread: true}
	ofProduction := DrainedMachine{Namespace: "fleet", ClusterLabels: map[string]string{"stage": "production"}}
	p := newPod("p")
	rules := func(m DrainedMachine, machines drainRuleEntry) []Rule {
		return ClusterAPIRules(rulesOf(of("a", machines)).For(m), read)
	}
	decide(t, brief, map[string]ruling{
		"it is not clear whether it is meant":  {p, rules(unread, production), "Deny DrainRuleUnclear"},
		"an invalid selector of Machines":      {p, rules(linuxMachine, typed), "Deny DrainRuleUnclear"},
		"one that is not of the Cluster":       {p, rules(DrainedMachine{Namespace: "fleet"}, typedIn), "Evict Evictable"},
		"it is meant":                          {p, rules(ofProduction, production), "Ignore Skipped"},
		"For was not called: nothing is clear": {p, ClusterAPIRules(rulesOf(of("a", linux)), read), "Deny DrainRuleUnclear"},
	})
}

func TestInvalidDrainRule(t *testing.T) {
	odd := drainRuleFor("c-odd", behaviorSkip, drainRuleEntry{Selector: labelsAre("app", "odd")})
	odd.spec.Drain.Order = ptr.To[int32](1)
	rules := rulesOf(
		drainRuleFor("b-good", behaviorSkip, drainRuleEntry{Selector: labelsAre("app", "web")}),
		drainRuleFor("a-bad", "Spare", drainRuleEntry{Selector: labelsAre("tier", "db")}), odd,
	)
	want := []string{`MachineDrainRule fleet/a-bad: spec.drain.behavior: unknown behavior "Spare"`}
	require.Equal(t, want, problemsOf(rules))
	db := newPod("db", labeled("tier", "db"))
	mine := ClusterAPIRules(rules.For(DrainedMachine{Namespace: "fleet"}), nil)
	require.Equal(t, []string{"db Deny DrainRuleUnclear", "rest Evict Evictable", "web Ignore Skipped"},
		lines(planOf(mine, Facts{}, newPod("web"), db, newPod("rest", labeled("app", "rest")))))
	require.Equal(t, "it is not clear whether the Pod may go: "+want[0]+"; correct or delete the rule", Decide(db, mine).Message)
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
