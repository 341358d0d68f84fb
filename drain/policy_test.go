package drain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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

// graceful is the action, the reason and the grace period of a verdict, "own" when the pod's own counts.
func graceful(v Verdict) string {
	switch {
	case !v.Action.leaves():
		return brief(v)
	case v.GracePeriodSeconds == nil:
		return brief(v) + " own"
	}
	return brief(v) + " " + (time.Duration(*v.GracePeriodSeconds) * time.Second).String()
}

// governed is a pod in a situation under a policy, and what the default rules and the policy decide.
type governed struct {
	policy Policy
	s      Situation
	pod    *corev1.Pod
	want   string
}

func govern(t *testing.T, cases map[string]governed) {
	t.Helper()
	rulings := map[string]ruling{}
	for name, tc := range cases {
		require.NoError(t, tc.policy.Validate())
		tc.s.Now = noon
		rulings[name] = ruling{tc.pod, append(DefaultRules(), tc.policy.Rule(tc.s)), tc.want}
	}
	decide(t, graceful, rulings)
}

func TestPolicyUnreachable(t *testing.T) {
	const (
		own, second, skipped = "Evict Evictable own", "Evict Evictable 1s", "Ignore StuckTerminating"
		waits, deleted       = "Wait Terminating", "Delete PoweredOff 1s"
	)
	table, long := *DefaultPolicy(), Policy{SkipUnreachableAfter: 2 * time.Hour}
	graces := Policy{SkipUnreachableAfter: 5 * time.Minute, GracePeriod: new(int64(10))}
	a, ownZero := newPod("a"), newPod("a", ownGrace(0))
	noGrace := newPod("a", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} })
	going := func(ago time.Duration, seconds int64) *corev1.Pod { return newPod("a", deletedFor(ago, seconds)) }
	halfHour, due, early := going(30*time.Minute, 3600), going(92*time.Second, 30), going(time.Hour, 30)
	since := func(node *corev1.Node, started time.Duration) Situation {
		return Situation{Node: node, StartedAt: noon.Add(-started)}
	}
	silent, off := Situation{Node: silentFor(time.Hour)}, Situation{PoweredOff: true}
	lately, lastly := Situation{Node: silentFor(299 * time.Second)}, Situation{Node: silentFor(300 * time.Second)}
	hour := silentFor(time.Hour)
	govern(t, map[string]governed{
		"the zero policy has no opinion":                  {Policy{}, Situation{Node: hour, PoweredOff: true}, a, own},
		"the zero policy waits for terminating pods":      {Policy{}, silent, early, waits},
		"a Node that is not ready answers":                {table, Situation{Node: readyNode(corev1.ConditionFalse, time.Hour)}, a, own},
		"a Node without the condition answers":            {table, Situation{Node: &corev1.Node{}}, a, own},
		"silent for less than 5 minutes":                  {table, lately, a, own},
		"then terminating pods are waited for":            {table, lately, early, waits},
		"silent for 5 minutes: a second of grace":         {table, lastly, a, second},
		"not what all others get":                         {graces, silent, a, second},
		"a pod with grace 0 of its own gets a second":     {table, silent, ownZero, second},
		"a termination that has just begun is waited for": {table, silent, going(time.Minute, 3600), waits},
		"and over like one of a second":                   {table, since(hour, 2*time.Minute), going(62*time.Second, 3600), skipped},
		"an hour counts from when it is silent":           {table, since(silentFor(5*time.Minute+61*time.Second), time.Hour), halfHour, waits},
		"and is over a second later":                      {table, since(silentFor(5*time.Minute+62*time.Second), time.Hour), halfHour, skipped},
		"and from when the drain began":                   {table, since(hour, 61*time.Second), halfHour, waits},
		"to be over a minute and a second later":          {table, since(hour, 62*time.Second), halfHour, skipped},
		"a huge grace period does not wrap":               {table, since(hour, 0), going(0, 1<<62), waits},
		"a short one too":                                 {table, silent, going(30*time.Second, 1), waits},
		"a deletion without a grace period is left":       {table, silent, noGrace, waits},
		"a minute after its time a pod is skipped":        {table, silent, due, skipped},
		"another time may be asked for":                   {long, silent, due, waits},
		"off: deleted with a second of grace":             {table, Situation{Node: silentFor(time.Minute), PoweredOff: true}, a, deleted},
		"off: an hour of grace is not waited for": {table, Situation{PoweredOff: true, StartedAt: noon.Add(-time.Hour)},
			going(62*time.Second, 3600), skipped},
		"off counts even before the Node is silent": {table, Situation{Node: readyNode(corev1.ConditionTrue, time.Hour), PoweredOff: true}, a,
			deleted},
		"off: terminating pods are skipped in time": {table, off, due, skipped},
	})
}

func TestPolicyEscalation(t *testing.T) {
	staged := Policy{GracePeriod: new(int64(90)), DeleteAfter: 20 * time.Minute}
	ago := func(d time.Duration) Situation { return Situation{StartedAt: noon.Add(-d)} }
	a, going, ds := newPod("a"), newPod("a", deletedFor(time.Minute, 90)), newPod("ds", byDaemonSet)
	govern(t, map[string]governed{
		"the zero policy evicts for ever":    {Policy{}, Situation{StartedAt: time.Time{}.Add(1)}, a, "Evict Evictable own"},
		"a grace period for all":             {staged, ago(0), a, "Evict Evictable 1m30s"},
		"a start in the future is now":       {staged, ago(-time.Hour), a, "Evict Evictable 1m30s"},
		"without a start nothing is deleted": {staged, Situation{}, a, "Evict Evictable 1m30s"},
		"shortly before the time":            {staged, ago(20*time.Minute - 1), a, "Evict Evictable 1m30s"},
		"then Pods are deleted":              {staged, ago(20 * time.Minute), a, "Delete Escalated 1m30s"},
		"what terminates is waited for":      {staged, ago(20 * time.Minute), going, "Wait Terminating"},
		"it deletes no DaemonSet pod":        {staged, ago(20 * time.Minute), ds, "Ignore DaemonSetPod"},
	})
}

func TestPolicyIsLast(t *testing.T) {
	as := func(a Action) Rule {
		return func(*corev1.Pod, Verdict) (Verdict, error) {
			return Verdict{Action: a, Reason: "Custom", Order: 7}, nil
		}
	}
	s := Situation{Now: noon, StartedAt: noon.Add(-time.Hour), PoweredOff: true}
	for want, p := range map[string]Policy{"Delete Escalated 7": {DeleteAfter: 1}, "Delete PoweredOff 7": *DefaultPolicy()} {
		for action, want := range map[Action]string{
			Deny: "Deny Custom 7", Ignore: "Ignore Custom 7", Undecided: "Deny NoVerdict 7", Wait: "Wait Custom 7", Evict: want,
		} {
			require.Equal(t, want, brief(Decide(newPod("a"), []Rule{as(action), p.Rule(s)})))
		}
	}
	forced := func(*corev1.Pod, Verdict) (Verdict, error) {
		return Verdict{Action: Evict, Reason: "Forced", GracePeriodSeconds: new(int64(0))}, nil
	}
	require.Equal(t, "Evict Forced 1s", graceful(Decide(newPod("a"), []Rule{forced, Policy{}.Rule(Situation{})})), "0 is raised")
}

func TestPolicyInAPlan(t *testing.T) {
	plan := func(p Policy, s Situation, early *corev1.Pod) []string {
		s.Now = noon
		rules := append([]Rule{named(setOrder(5), "late")}, append(DefaultRules(), p.Rule(s))...)
		return lines(planOf(rules, budgeted(newBudget("pdb", 0)), early, newPod("late")))
	}
	require.Equal(t, []string{"early Wait BudgetExhausted", "late Wait LowerOrder"}, plan(Policy{}, Situation{}, newPod("early")),
		"evictions honour the budget")
	require.Equal(t, []string{"early Delete Escalated", "late Wait LowerOrder"},
		plan(Policy{DeleteAfter: 1}, Situation{StartedAt: noon.Add(-1)}, newPod("early")), "deletions ignore budgets and keep orders")
	require.Equal(t, []string{"early Ignore StuckTerminating", "late Wait BudgetExhausted"},
		plan(*DefaultPolicy(), Situation{Node: silentFor(time.Hour)}, newPod("early", deletedFor(time.Hour, 30))),
		"skipped pods hold no order back")
}

func TestPolicyValidate(t *testing.T) {
	err := Policy{GracePeriod: new(int64(0)), DeleteAfter: -1, SkipUnreachableAfter: -1}.Validate()
	require.ErrorContains(t, err, "GracePeriod must be at least 1, is 0")
	require.ErrorContains(t, err, "DeleteAfter and SkipUnreachableAfter must not be negative")
	require.NoError(t, Policy{}.Validate())
}
