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
	table := *DefaultPolicy()
	withGrace := func(seconds int64) Policy {
		return Policy{SkipUnreachableAfter: 5 * time.Minute, GracePeriod: &seconds}
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
		"not what all others get":                 {withGrace(10), Situation{Node: silentFor(time.Hour)}, newPod("a"), "Evict Evictable 1s"},
		"a pod with grace 0 of its own gets a second": {table, Situation{Node: silentFor(time.Hour)}, newPod("a", ownGrace(0)),
			"Evict Evictable 1s"},
		"a termination that has just begun is waited for": {table, Situation{Node: silentFor(time.Hour)},
			newPod("a", deletedFor(time.Minute, 3600)), "Wait Terminating"},
		"and over like one of a second": {table, Situation{Node: silentFor(time.Hour), StartedAt: noon.Add(-2 * time.Minute)},
			newPod("a", deletedFor(62*time.Second, 3600)), "Ignore StuckTerminating"},
		"an hour counts from when it is silent": {table,
			Situation{Node: silentFor(5*time.Minute + 61*time.Second), StartedAt: noon.Add(-time.Hour)},
			newPod("a", deletedFor(30*time.Minute, 3600)), "Wait Terminating"},
		"and is over a minute and a second later": {table,
			Situation{Node: silentFor(5*time.Minute + 62*time.Second), StartedAt: noon.Add(-time.Hour)},
			newPod("a", deletedFor(30*time.Minute, 3600)), "Ignore StuckTerminating"},
		"and from when the drain began": {table, Situation{Node: silentFor(time.Hour), StartedAt: noon.Add(-61 * time.Second)},
			newPod("a", deletedFor(30*time.Minute, 3600)), "Wait Terminating"},
		"to be over a minute and a second later": {table, Situation{Node: silentFor(time.Hour), StartedAt: noon.Add(-62 * time.Second)},
			newPod("a", deletedFor(30*time.Minute, 3600)), "Ignore StuckTerminating"},
		"a huge grace period does not wrap": {table, Situation{Node: silentFor(time.Hour), StartedAt: noon}, newPod("a", deletedFor(0, 1<<62)),
			"Wait Terminating"},
		"a short one too": {table, Situation{Node: silentFor(time.Hour)}, newPod("a", deletedFor(30*time.Second, 1)),
			"Wait Terminating"},
		"a deletion without a grace period is left": {table, Situation{Node: silentFor(time.Hour)},
			newPod("a", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }), "Wait Terminating"},
		"a minute after its time a pod is skipped": {table, Situation{Node: silentFor(time.Hour)},
			newPod("a", deletedFor(92*time.Second, 30)), "Ignore StuckTerminating"},
		"another time may be asked for": {Policy{SkipUnreachableAfter: 2 * time.Hour}, Situation{Node: silentFor(time.Hour)},
			newPod("a", deletedFor(92*time.Second, 30)), "Wait Terminating"},

		"off: deleted with a second of grace": {table, Situation{Node: silentFor(time.Minute), PoweredOff: true}, newPod("a"),
			"Delete PoweredOff 1s"},
		"off: an hour of grace is not waited for": {table, Situation{PoweredOff: true, StartedAt: noon.Add(-time.Hour)},
			newPod("a", deletedFor(62*time.Second, 3600)), "Ignore StuckTerminating"},
		"off counts even before the Node is silent": {table, Situation{Node: readyNode(corev1.ConditionTrue, time.Hour), PoweredOff: true},
			newPod("a"), "Delete PoweredOff 1s"},
		"off: terminating pods are skipped in time": {table, Situation{PoweredOff: true}, newPod("a", deletedFor(92*time.Second, 30)),
			"Ignore StuckTerminating"},
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

func TestPolicy_AGraceOfZeroIsRaised(t *testing.T) {
	forced := func(*corev1.Pod, Verdict) (Verdict, error) {
		return Verdict{Action: Evict, GracePeriodSeconds: new(int64(0))}, nil
	}
	got := Decide(newPod("a"), []Rule{forced, Policy{}.Rule(Situation{})})
	if *got.GracePeriodSeconds != 1 {
		t.Errorf("want a rule's 0 raised to 1, got %d", *got.GracePeriodSeconds)
	}
}

func TestPolicy_Escalation(t *testing.T) {
	staged := Policy{GracePeriod: new(int64(90)), DeleteAfter: 20 * time.Minute}
	ago := func(d time.Duration) Situation { return Situation{StartedAt: noon.Add(-d)} }
	ds := newPod("ds", ownedBy("apps/v1", "DaemonSet"))
	cases := map[string]struct {
		policy Policy
		s      Situation
		pod    *corev1.Pod
		want   string
	}{
		"the zero policy evicts for ever":    {Policy{}, Situation{StartedAt: time.Time{}.Add(1)}, newPod("a"), "Evict Evictable own"},
		"a grace period for all":             {staged, ago(0), newPod("a"), "Evict Evictable 1m30s"},
		"a start in the future is now":       {staged, ago(-time.Hour), newPod("a"), "Evict Evictable 1m30s"},
		"without a start nothing is deleted": {staged, Situation{}, newPod("a"), "Evict Evictable 1m30s"},
		"shortly before the time":            {staged, ago(20*time.Minute - 1), newPod("a"), "Evict Evictable 1m30s"},
		"then Pods are deleted":              {staged, ago(20 * time.Minute), newPod("a"), "Delete Escalated 1m30s"},
		"what terminates is waited for":      {staged, ago(20 * time.Minute), newPod("a", deletedFor(time.Minute, 90)), "Wait Terminating"},
		"it deletes no DaemonSet pod":        {staged, ago(20 * time.Minute), ds, "Ignore DaemonSetPod"},
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
	policies := map[string]Policy{"delete": {DeleteAfter: 1}, "off": *DefaultPolicy()}
	s := Situation{Now: noon, StartedAt: noon.Add(-time.Hour), PoweredOff: true}
	for name, p := range policies {
		for action, want := range map[Action]string{
			Deny: "Deny Custom", Ignore: "Ignore Custom", Undecided: "Deny NoVerdict", Wait: "Wait Custom",
			Evict: map[string]string{"delete": "Delete Escalated", "off": "Delete PoweredOff"}[name],
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
		plan(Policy{DeleteAfter: 1}, Situation{StartedAt: noon.Add(-1)}, early, late))
	check("skipped pods hold no order back", []string{"node-a early Ignore StuckTerminating", "node-a late Wait BudgetExhausted"},
		plan(*DefaultPolicy(), Situation{Node: silentFor(time.Hour)}, newPod("early", deletedFor(time.Hour, 30)), late))
}

func TestPolicyValidate_NamesEverythingThatIsWrong(t *testing.T) {
	err := Policy{GracePeriod: new(int64(0)), DeleteAfter: -1, SkipUnreachableAfter: -1}.Validate()
	for _, want := range []string{
		"GracePeriod must be at least 1, is 0", "DeleteAfter and SkipUnreachableAfter must not be negative",
	} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, Policy{}.Validate())
}

func TestDeleteBy(t *testing.T) {
	cases := map[string]struct {
		left time.Duration
		pod  *corev1.Pod
		want string
	}{
		"more than the grace period is left":   {31 * time.Second, newPod("a", ownGrace(30)), "Evict own"},
		"the grace period is left":             {30 * time.Second, newPod("a", ownGrace(30)), "Delete 30s"},
		"less is left":                         {12 * time.Second, newPod("a", ownGrace(30)), "Delete 12s"},
		"more than will ever be left":          {10 * time.Minute, newPod("a", ownGrace(3600)), "Delete 10m0s"},
		"the deadline has passed":              {-time.Hour, newPod("a"), "Delete 1s"},
		"a Pod that is terminating":            {-time.Hour, newPod("a", deletedFor(time.Minute, 90)), "Wait own"},
		"a Pod of a DaemonSet":                 {-time.Hour, newPod("a", ownedBy("apps/v1", "DaemonSet")), "Ignore own"},
		"the default of a Pod without a grace": {30 * time.Second, newPod("a"), "Delete 30s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := Decide(tc.pod, append(DefaultRules(), DeleteBy(noon.Add(tc.left), func() time.Time { return noon })))
			got := v.Action.String() + " own"
			if v.GracePeriodSeconds != nil {
				got = v.Action.String() + " " + (time.Duration(*v.GracePeriodSeconds) * time.Second).String()
			}
			require.Equal(t, tc.want, got)
		})
	}
}
