package drain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ownGrace(seconds int64) podOption {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// deletedFor was deleted some time ago with a grace period; its deletion time is the end of that.
func deletedFor(ago time.Duration, seconds int64) podOption {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp = &metav1.Time{Time: noon.Add(-ago + time.Duration(seconds)*time.Second)}
		p.DeletionGracePeriodSeconds = &seconds
	}
}

func readyNode(status corev1.ConditionStatus, since time.Duration) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: testNode},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Time{Time: noon.Add(-since)}},
		}},
	}
}

func silentFor(since time.Duration) *corev1.Node { return readyNode(corev1.ConditionUnknown, since) }

// said prints a verdict: action, reason and grace period, "own" when the pod's own counts.
func said(t *testing.T, p Policy, s Situation, pod *corev1.Pod) string {
	t.Helper()
	s.Now = noon
	before := pod.DeepCopy()
	v := Decide(pod, append(DefaultRules(), p.Rule(s)))
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Errorf("the pod was changed (-before +after):\n%s", diff)
	}
	text := v.Action.String() + " " + string(v.Reason)
	if v.Action == Evict || v.Action == Delete {
		if v.GracePeriodSeconds == nil {
			return text + " own"
		}
		return text + " " + (time.Duration(*v.GracePeriodSeconds) * time.Second).String()
	}
	return text
}

func TestPolicy_UnreachableNodes(t *testing.T) {
	table := Policy{Unreachable: &UnreachablePolicy{}}
	with := func(change func(*UnreachablePolicy)) Policy {
		u := UnreachablePolicy{}
		change(&u)
		return Policy{Unreachable: &u}
	}
	tainting := with(func(u *UnreachablePolicy) { u.OutOfServiceTaint = true })
	tolerant := func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }
	tolerates := func(key, value string, effect corev1.TaintEffect) podOption {
		return func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: key, Value: value, Effect: effect}}
		}
	}
	type row struct {
		policy Policy
		s      Situation
		pod    *corev1.Pod
		want   string
	}
	cases := map[string]row{
		"the zero policy has no opinion": {Policy{}, Situation{Node: silentFor(time.Hour), PoweredOff: true}, newPod("a"),
			"Evict Evictable own"},
		"the zero policy waits for terminating pods": {Policy{}, Situation{Node: silentFor(time.Hour)}, newPod("a", deletedFor(time.Hour, 30)),
			"Wait Terminating"},
		"a Node that is not ready answers": {table, Situation{Node: readyNode(corev1.ConditionFalse, time.Hour)}, newPod("a"),
			"Evict Evictable own"},
		"a Node without the condition answers": {table, Situation{Node: &corev1.Node{}}, newPod("a"), "Evict Evictable own"},
		"silent for less than 5 minutes": {table, Situation{Node: silentFor(299 * time.Second)}, newPod("a"),
			"Evict Evictable own"},
		"then terminating pods are waited for": {table, Situation{Node: silentFor(299 * time.Second)},
			newPod("a", deletedFor(time.Hour, 30)), "Wait Terminating"},
		"silent for 5 minutes: a second of grace": {table, Situation{Node: silentFor(300 * time.Second)}, newPod("a"), "Evict Evictable 1s"},
		"a longer grace may be asked for": {with(func(u *UnreachablePolicy) { u.Grace = new(int64(10)) }),
			Situation{Node: silentFor(time.Hour)}, newPod("a"), "Evict Evictable 10s"},
		"but not longer than the pod's own": {with(func(u *UnreachablePolicy) { u.Grace = new(int64(60)) }),
			Situation{Node: silentFor(time.Hour)}, newPod("a", ownGrace(5)), "Evict Evictable 5s"},
		"a pod with grace 0 of its own gets a second": {table, Situation{Node: silentFor(time.Hour)}, newPod("a", ownGrace(0)),
			"Evict Evictable 1s"},
		"long terminations are shortened": {table, Situation{Node: silentFor(time.Hour)}, newPod("a", deletedFor(time.Minute, 3600)),
			"Delete Terminating 1s"},
		"and end the same if they cannot be shortened": {table, Situation{Node: silentFor(time.Hour), StartedAt: noon.Add(-2 * time.Minute)},
			newPod("a", deletedFor(62*time.Second, 3600)), "Ignore StuckTerminating"},
		"an hour counts from when it is silent": {table,
			Situation{Node: silentFor(5*time.Minute + 61*time.Second), StartedAt: noon.Add(-time.Hour)},
			newPod("a", deletedFor(30*time.Minute, 3600)), "Delete Terminating 1s"},
		"and is over a minute and a second later": {table,
			Situation{Node: silentFor(5*time.Minute + 62*time.Second), StartedAt: noon.Add(-time.Hour)},
			newPod("a", deletedFor(30*time.Minute, 3600)), "Ignore StuckTerminating"},
		"and from when the drain began": {table, Situation{Node: silentFor(time.Hour), StartedAt: noon.Add(-61 * time.Second)},
			newPod("a", deletedFor(30*time.Minute, 3600)), "Delete Terminating 1s"},
		"to be over a minute and a second later": {table, Situation{Node: silentFor(time.Hour), StartedAt: noon.Add(-62 * time.Second)},
			newPod("a", deletedFor(30*time.Minute, 3600)), "Ignore StuckTerminating"},
		"what the server would not shorten is left": {table, Situation{Node: silentFor(time.Hour)}, newPod("a", deletedFor(30*time.Second, 1)),
			"Wait Terminating"},
		"a deletion without a grace period is left": {table, Situation{Node: silentFor(time.Hour)},
			newPod("a", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }), "Wait Terminating"},
		"a minute after its time a pod is skipped": {table, Situation{Node: silentFor(time.Hour)},
			newPod("a", deletedFor(92*time.Second, 30)), "Ignore StuckTerminating"},
		"unless it is always waited for": {with(func(u *UnreachablePolicy) { u.SkipTerminatingAfter = -1 }),
			Situation{Node: silentFor(time.Hour)}, newPod("a", deletedFor(time.Hour, 1)), "Wait Terminating"},
		"budgets are bypassed by their own timer": {with(func(u *UnreachablePolicy) { u.BypassBudgetsAfter = time.Hour }),
			Situation{Node: silentFor(time.Hour)}, newPod("a"), "Delete Unreachable 1s"},
		"and not before": {with(func(u *UnreachablePolicy) { u.BypassBudgetsAfter = time.Hour }),
			Situation{Node: silentFor(59 * time.Minute)}, newPod("a"), "Evict Evictable 1s"},

		"off: deleted with a second of grace": {table, Situation{Node: silentFor(time.Minute), PoweredOff: true}, newPod("a"),
			"Delete PoweredOff 1s"},
		"off: evicted if Pods cannot be deleted": {table, Situation{PoweredOff: true, EvictsOnly: true}, newPod("a"), "Evict Evictable 1s"},
		"off: an hour of grace is not waited for": {table, Situation{PoweredOff: true, StartedAt: noon.Add(-time.Hour)},
			newPod("a", deletedFor(62*time.Second, 3600)), "Ignore StuckTerminating"},
		"off counts even before the Node is silent": {table, Situation{Node: readyNode(corev1.ConditionTrue, time.Hour), PoweredOff: true},
			newPod("a"), "Delete PoweredOff 1s"},
		"off: terminating pods are skipped in time": {table, Situation{PoweredOff: true}, newPod("a", deletedFor(92*time.Second, 30)),
			"Ignore StuckTerminating"},
		"off: no Pod is waited for, if asked": {with(func(u *UnreachablePolicy) { u.FinishWhenPoweredOff = true }),
			Situation{PoweredOff: true}, newPod("a"), "Ignore PoweredOff"},
		"off and out of service: left to the cluster": {tainting, Situation{PoweredOff: true}, newPod("a"), "Wait PoweredOff"},
		"a pod that tolerates the taint is deleted":   {tainting, Situation{PoweredOff: true}, newPod("a", tolerant), "Delete PoweredOff 1s"},
		"also one that names it": {tainting, Situation{PoweredOff: true},
			newPod("a", tolerates(corev1.TaintNodeOutOfService, "nodeshutdown", "")), "Delete PoweredOff 1s"},
		"other effects are no toleration": {tainting, Situation{PoweredOff: true},
			newPod("a", tolerates(corev1.TaintNodeOutOfService, "nodeshutdown", "NoSchedule")), "Wait PoweredOff"},
		"other values are no toleration": {tainting, Situation{PoweredOff: true},
			newPod("a", tolerates(corev1.TaintNodeOutOfService, "x", "")), "Wait PoweredOff"},
		"unconfirmed there is no taint": {tainting, Situation{Node: silentFor(time.Hour)}, newPod("a"), "Evict Evictable 1s"},

		"no instance: nothing is left to drain": {Policy{}, Situation{InstanceGone: true}, newPod("a"), "Ignore InstanceGone"},
		"no instance: terminating pods do not block": {table, Situation{InstanceGone: true}, newPod("a", deletedFor(time.Minute, 3600)),
			"Ignore InstanceGone"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, tc.policy.Validate())
			if got := said(t, tc.policy, tc.s, tc.pod); got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
			asked := tc.policy.Unreachable != nil && tc.policy.Unreachable.OutOfServiceTaint && tc.s.PoweredOff
			if got := tc.policy.OutOfService(tc.s); got != asked {
				t.Errorf("want the taint only when asked for and confirmed, got %t", got)
			}
		})
	}
}

func TestPolicy_GraceZeroNeedsToBeAskedForAndAKnownPowerState(t *testing.T) {
	zero := new(int64(0))
	kill := Policy{GracePeriod: zero, AllowImmediateKill: true, Unreachable: &UnreachablePolicy{Grace: zero}}
	require.NoError(t, kill.Validate())
	cases := map[string]struct {
		s    Situation
		want string
	}{
		"the Node answers":          {Situation{Node: readyNode(corev1.ConditionTrue, 0)}, "Evict Evictable 0s"},
		"silent for a second":       {Situation{Node: silentFor(time.Second)}, "Evict Evictable 1s"},
		"silent for an hour":        {Situation{Node: silentFor(time.Hour)}, "Evict Evictable 1s"},
		"silent, and confirmed off": {Situation{Node: silentFor(time.Hour), PoweredOff: true}, "Delete PoweredOff 0s"},
		"an unknown Node":           {Situation{}, "Evict Evictable 0s"},
	}
	for name, tc := range cases {
		if got := said(t, kill, tc.s, newPod("a")); got != tc.want {
			t.Errorf("%s: want %q, got %q", name, tc.want, got)
		}
	}
	forced := func(*corev1.Pod, Verdict) (Verdict, error) {
		return Verdict{Action: Evict, GracePeriodSeconds: zero}, nil
	}
	got := Decide(newPod("a"), []Rule{forced, Policy{}.Rule(Situation{})})
	if *got.GracePeriodSeconds != 1 {
		t.Errorf("want a rule's 0 raised to 1 without AllowImmediateKill, got %d", *got.GracePeriodSeconds)
	}
}

func TestPolicy_ClusterAPIsBehaviourIsData(t *testing.T) {
	capi := Policy{
		Unreachable: &UnreachablePolicy{After: -1, Grace: new(int64(1)), SkipTerminatingAfter: time.Second},
		Stages:      []Stage{{After: 10 * time.Minute, Mode: ModeAbandon}}, // nodeDrainTimeout
	}
	require.NoError(t, capi.Validate())
	now := Situation{Node: silentFor(0)}
	for pod, want := range map[*corev1.Pod]string{
		newPod("a"): "Evict Evictable 1s",
		newPod("b", deletedFor(31*time.Second, 30)): "Delete Terminating 1s",
		newPod("c", deletedFor(33*time.Second, 30)): "Ignore StuckTerminating",
	} {
		if got := said(t, capi, now, pod); got != want {
			t.Errorf("%s: want %q, got %q", pod.Name, want, got)
		}
	}
	reachable := Situation{Node: readyNode(corev1.ConditionFalse, time.Hour)}
	if got := said(t, capi, reachable, newPod("a")); got != "Evict Evictable own" {
		t.Errorf("want a Node that says it is not ready drained as any other, got %q", got)
	}
	late := Situation{Now: noon, StartedAt: noon.Add(-10 * time.Minute)}
	if got := said(t, capi, late, newPod("a")); got != "Wait Abandoned" || !capi.Abandoned(late) {
		t.Errorf("want the drain abandoned, got %q", got)
	}
}

func TestPolicy_Stages(t *testing.T) {
	polite := Policy{}
	staged := Policy{
		GracePeriod: new(int64(90)),
		Stages: []Stage{
			{After: 10 * time.Minute, Mode: ModeEvict, Grace: new(int64(60))},
			{After: 20 * time.Minute, Mode: ModeDelete, Grace: new(int64(20))},
			{After: 30 * time.Minute, Mode: ModeAbandon},
		},
	}
	clamp := Policy{Stages: []Stage{{Mode: ModeClamp}}}
	ago := func(d time.Duration) Situation { return Situation{StartedAt: noon.Add(-d)} }
	until := func(d time.Duration) Situation { return Situation{Deadline: noon.Add(d)} }
	ds := newPod("ds", ownedBy("apps/v1", "DaemonSet"))
	cases := map[string]struct {
		policy Policy
		s      Situation
		pod    *corev1.Pod
		want   string
	}{
		"the zero policy evicts for ever": {polite, Situation{StartedAt: time.Time{}.Add(1), Deadline: noon}, newPod("a"),
			"Evict Evictable own"},
		"a grace period for all":          {staged, ago(0), newPod("a"), "Evict Evictable 1m30s"},
		"a start in the future is now":    {staged, ago(-time.Hour), newPod("a"), "Evict Evictable 1m30s"},
		"without a start no stage begins": {staged, Situation{}, newPod("a"), "Evict Evictable 1m30s"},
		"a stage begins":                  {staged, ago(10 * time.Minute), newPod("a"), "Evict Evictable 1m0s"},
		"a stage deletes":                 {staged, ago(20 * time.Minute), newPod("a"), "Delete Escalated 20s"},
		"it shortens what terminates": {staged, ago(20 * time.Minute), newPod("a", deletedFor(time.Minute, 90)),
			"Delete Terminating 20s"},
		"it deletes no DaemonSet pod":             {staged, ago(20 * time.Minute), ds, "Ignore DaemonSetPod"},
		"a stage gives up":                        {staged, ago(30 * time.Minute), newPod("a"), "Wait Abandoned"},
		"and leaves terminating pods as they are": {staged, ago(30 * time.Minute), newPod("a", deletedFor(time.Minute, 90)), "Wait Terminating"},

		"clamp: evicted while there is time":       {clamp, until(31 * time.Second), newPod("a"), "Evict Evictable own"},
		"clamp: deleted when the grace just fits":  {clamp, until(30 * time.Second), newPod("a"), "Delete Deadline 30s"},
		"clamp: each pod at its own moment":        {clamp, until(31 * time.Second), newPod("a", ownGrace(600)), "Delete Deadline 31s"},
		"clamp: a huge grace period does not wrap": {clamp, until(time.Hour), newPod("a", ownGrace(1<<62)), "Delete Deadline 1h0m0s"},
		"clamp: never less than a second":          {clamp, until(-time.Hour), newPod("a"), "Delete Deadline 1s"},
		"clamp: late terminations are cut": {clamp, until(time.Minute), newPod("a", deletedFor(time.Minute, 600)),
			"Delete Terminating 1m0s"},
		"clamp: terminations that fit are left": {clamp, until(10 * time.Minute), newPod("a", deletedFor(time.Minute, 600)),
			"Wait Terminating"},
		"clamp: without a deadline Pods are evicted": {clamp, Situation{}, newPod("a"), "Evict Evictable own"},
		"clamp on a silent Node: the shorter one": {Policy{Stages: clamp.Stages, Unreachable: &UnreachablePolicy{}},
			Situation{Deadline: noon.Add(time.Minute), Node: silentFor(time.Hour)}, newPod("a", deletedFor(0, 600)), "Delete Terminating 1s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, tc.policy.Validate())
			if got := said(t, tc.policy, tc.s, tc.pod); got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}

func TestPolicy_WhatRulesDenyOrLetWait(t *testing.T) {
	as := func(a Action) Rule {
		return func(*corev1.Pod, Verdict) (Verdict, error) {
			return Verdict{Action: a, Reason: "Custom", Order: 7}, nil
		}
	}
	policies := map[string]Policy{
		"delete": {Stages: []Stage{{Mode: ModeDelete}}},
		"clamp":  {Stages: []Stage{{Mode: ModeClamp}}},
		"off":    {Unreachable: &UnreachablePolicy{}},
	}
	s := Situation{Now: noon, Deadline: noon, PoweredOff: true}
	for name, p := range policies {
		for action, want := range map[Action]string{
			Deny: "Deny Custom", Ignore: "Ignore Custom", Undecided: "Deny NoVerdict", Wait: map[string]string{
				"delete": "Wait Custom", "clamp": "Delete Deadline", "off": "Wait Custom",
			}[name],
		} {
			v := Decide(newPod("a"), []Rule{as(action), p.Rule(s)})
			if got := v.Action.String() + " " + string(v.Reason); got != want {
				t.Errorf("%s of %s: want %q, got %q", name, action, want, got)
			}
			if v.Action == Delete && v.Order != 7 {
				t.Errorf("want the order kept, got %d", v.Order)
			}
		}
	}
}

func TestPolicy_InAPlan(t *testing.T) {
	ordered := func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if pod.Name == "late" || pod.Name == "gone" {
			prev.Order = 5
		}
		return prev, nil
	}
	plan := func(p Policy, s Situation, pods ...*corev1.Pod) []string {
		s.Now = noon
		rules := append([]Rule{ordered}, append(DefaultRules(), p.Rule(s))...)
		return lines(Planner{Rules: rules}.Plan([]NodePods{{Node: testNode, Pods: pods}},
			Facts{Budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 0)}}))
	}
	early, late := newPod("early"), newPod("late")
	check := func(what string, want, got []string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	check("evictions honour the budget", []string{"node-a early Wait BudgetExhausted", "node-a late Wait LowerOrder"},
		plan(Policy{}, Situation{}, early, late))
	check("deletions ignore budgets and keep orders", []string{"node-a early Delete Escalated", "node-a late Wait LowerOrder"},
		plan(Policy{Stages: []Stage{{Mode: ModeDelete}}}, Situation{}, early, late))
	check("the deadline ignores orders", []string{"node-a early Delete Deadline", "node-a late Delete Deadline"},
		plan(Policy{Stages: []Stage{{Mode: ModeClamp}}}, Situation{Deadline: noon}, early, late))
	check("skipped pods hold no order back", []string{"node-a early Ignore StuckTerminating", "node-a late Wait BudgetExhausted"},
		plan(Policy{Unreachable: &UnreachablePolicy{}}, Situation{Node: silentFor(time.Hour)},
			newPod("early", deletedFor(time.Hour, 30)), late))
	check("shortening waits for no order", []string{"node-a early Wait BudgetExhausted", "node-a gone Delete Terminating"},
		plan(Policy{Unreachable: &UnreachablePolicy{}}, Situation{Node: silentFor(time.Hour)},
			early, newPod("gone", deletedFor(0, 300))))
}

func TestPolicy_DeletesAfterARefusalOnlyWhenAsked(t *testing.T) {
	s := Situation{Now: noon, StartedAt: noon.Add(-time.Minute)}
	two := Policy{MultipleBudgets: MultipleBudgetsPolicy{DeleteAfter: time.Minute}}
	ns := Policy{DeleteInTerminatingNamespaces: true}
	given := Policy{MultipleBudgets: two.MultipleBudgets, Stages: []Stage{{Mode: ModeAbandon}}}
	for _, tc := range []struct {
		policy  Policy
		refusal Reason
		s       Situation
		want    bool
	}{
		{Policy{}, ReasonMultipleBudgets, s, false},
		{Policy{}, ReasonNamespaceTerminating, s, false},
		{two, ReasonMultipleBudgets, s, true},
		{two, ReasonMultipleBudgets, Situation{Now: noon, StartedAt: noon.Add(-59 * time.Second)}, false},
		{two, ReasonForbidden, s, false},
		{ns, ReasonNamespaceTerminating, s, true},
		{given, ReasonMultipleBudgets, s, false},
	} {
		if got := tc.policy.DeletesAfter(tc.refusal, tc.s); got != tc.want {
			t.Errorf("%+v after %s: want %t, got %t", tc.policy, tc.refusal, tc.want, got)
		}
	}
}

func TestPolicy_NextIsTheMomentOfTheNextChange(t *testing.T) {
	after := noon.Add
	stages := Policy{Stages: []Stage{{After: 10 * time.Minute, Mode: ModeDelete}, {After: time.Hour, Mode: ModeAbandon}}}
	clamp := Policy{Stages: []Stage{{Mode: ModeClamp}}}
	silent := Policy{Unreachable: &UnreachablePolicy{BypassBudgetsAfter: time.Hour}}
	gone := newPod("gone", deletedFor(10*time.Second, 30))
	cases := map[string]struct {
		policy Policy
		s      Situation
		want   time.Time
	}{
		"never":              {Policy{}, Situation{StartedAt: noon, Deadline: noon.Add(1)}, time.Time{}},
		"a stage":            {stages, Situation{StartedAt: noon.Add(-time.Minute)}, after(9 * time.Minute)},
		"the stage after it": {stages, Situation{StartedAt: noon.Add(-10 * time.Minute)}, after(50 * time.Minute)},
		"no stage left":      {stages, Situation{StartedAt: noon.Add(-time.Hour)}, time.Time{}},
		"two budgets": {Policy{MultipleBudgets: MultipleBudgetsPolicy{DeleteAfter: time.Minute}}, Situation{},
			after(time.Minute)},
		"the first pod to be clamped": {clamp, Situation{Deadline: after(time.Hour)}, after(50 * time.Minute)},
		"a Node that falls silent":    {silent, Situation{Node: silentFor(time.Minute)}, after(4 * time.Minute)},
		"a pod that is to be skipped": {silent, Situation{Node: silentFor(10 * time.Minute)}, after(81 * time.Second)},
		"a long grace period is over": {silent, Situation{Node: silentFor(10 * time.Minute), StartedAt: noon.Add(-time.Hour)},
			after(52 * time.Second)},
		"budgets that are bypassed": {Policy{Unreachable: &UnreachablePolicy{BypassBudgetsAfter: 11 * time.Minute}},
			Situation{Node: silentFor(10 * time.Minute)}, after(time.Minute)},
		"a Node that answers, no pods": {silent, Situation{}, time.Time{}},
	}
	for name, tc := range cases {
		tc.s.Now = noon
		got := tc.policy.Next([]*corev1.Pod{newPod("a"), newPod("b", ownGrace(600)), gone, nil}, tc.s)
		if !got.Equal(tc.want) {
			t.Errorf("%s: want %s, got %s", name, tc.want, got)
		}
	}
}
