package drain

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func ofPriority(p int32) podOption { return func(pod *corev1.Pod) { pod.Spec.Priority = &p } }
func labeled(key, value string) podOption {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{key: value} }
}
func annotated(key, value string) podOption {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{key: value} }
}

// setOrder replaces the order of earlier rules.
func setOrder(order int32) Rule {
	return func(_ *corev1.Pod, prev Verdict) (Verdict, error) {
		prev.Order = order
		return prev, nil
	}
}

// when applies a rule only to the pods that match.
func when(match func(*corev1.Pod) bool, rule Rule) Rule {
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if !match(pod) {
			return prev, nil
		}
		return rule(pod, prev)
	}
}

// named applies a rule only to the pods of these names.
func named(rule Rule, names ...string) Rule {
	return when(func(p *corev1.Pod) bool { return slices.Contains(names, p.Name) }, rule)
}

// orderInText reads the order from an annotation, and fails if that is no number.
func orderInText(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	text, found := pod.Annotations["order"]
	if !found {
		return prev, nil
	}
	order, err := strconv.ParseInt(text, 10, 32)
	prev.Order = int32(order)
	return prev, err
}

// with returns the default rules after rules about orders.
func with(rules ...Rule) []Rule { return append(rules, DefaultRules()...) }

// brief is the action, the reason and, unless it is 0, the order of a verdict.
func brief(v Verdict) string {
	if v.Order == 0 {
		return fmt.Sprintf("%s %s", v.Action, v.Reason)
	}
	return fmt.Sprintf("%s %s %d", v.Action, v.Reason, v.Order)
}

// full has the message and the warnings too.
func full(v Verdict) string {
	text := brief(v)
	if v.Message != "" {
		text += ": " + v.Message
	}
	for _, w := range v.Warnings {
		text += "; warning: " + w
	}
	return text
}

// ruling is a pod, the rules, and what they decide.
type ruling struct {
	pod   *corev1.Pod
	rules []Rule
	want  string
}

func decide(t *testing.T, text func(Verdict) string, cases map[string]ruling) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.pod.DeepCopy()
			require.Equal(t, tc.want, text(Decide(tc.pod, tc.rules)))
			require.Equal(t, before, tc.pod, "the pod is not changed")
		})
	}
}

func TestDefaultRules(t *testing.T) {
	rules, ds := DefaultRules(), ownedBy("apps/v1", "DaemonSet")
	failed, succeeded := inPhase(corev1.PodFailed), inPhase(corev1.PodSucceeded)
	decide(t, brief, map[string]ruling{
		"a running pod is evicted":                    {newPod("p"), rules, "Evict Evictable"},
		"a pending pod is evicted":                    {newPod("p", inPhase(corev1.PodPending)), rules, "Evict Evictable"},
		"a finished pod is evicted":                   {newPod("p", failed), rules, "Evict Finished"},
		"a terminating pod is waited for":             {newPod("p", terminating), rules, "Wait Terminating"},
		"a terminating finished pod is waited for":    {newPod("p", terminating, succeeded), rules, "Wait Terminating"},
		"a mirror pod is ignored":                     {newPod("p", mirror), rules, "Ignore MirrorPod"},
		"a terminating mirror pod is ignored":         {newPod("p", mirror, terminating), rules, "Ignore MirrorPod"},
		"a DaemonSet pod is ignored":                  {newPod("p", ds), rules, "Ignore DaemonSetPod"},
		"a failed DaemonSet pod is ignored":           {newPod("p", ds, failed), rules, "Ignore DaemonSetPod"},
		"a terminating DaemonSet pod is ignored":      {newPod("p", ds, terminating), rules, "Ignore DaemonSetPod"},
		"a DaemonSet of another group is nothing":     {newPod("p", ownedBy("apps.kruise.io/v1", "DaemonSet")), rules, "Evict Evictable"},
		"a pod of a ReplicaSet is evicted":            {newPod("p", ownedBy("apps/v1", "ReplicaSet")), rules, "Evict Evictable"},
		"an unparsable owner apiVersion is no reason": {newPod("p", ownedBy("a/b/c", "DaemonSet")), rules, "Evict Evictable"},
	})
}

func TestDrainLabel(t *testing.T) {
	rules, ds := ClusterAPIRules(nil, nil), ownedBy("apps/v1", "DaemonSet")
	label := func(value string, opts ...podOption) *corev1.Pod {
		return newPod("p", append(opts, labeled("cluster.x-k8s.io/drain", value))...)
	}
	decide(t, brief, map[string]ruling{
		"skip leaves the pod":                    {label("skip"), rules, "Ignore Skipped"},
		"in any case":                            {label("SKIP"), rules, "Ignore Skipped"},
		"a dash spoils it":                       {label("sk-ip"), rules, "Evict Evictable"},
		"wait-completed waits":                   {label("wait-completed"), rules, "Wait WaitCompleted"},
		"without the dash":                       {label("WaitCompleted"), rules, "Wait WaitCompleted"},
		"the first dash may be anywhere":         {label("waitcom-pleted"), rules, "Wait WaitCompleted"},
		"a second dash spoils it":                {label("wait-com-pleted"), rules, "Evict Evictable"},
		"a completed pod is done":                {label("wait-completed", inPhase(corev1.PodSucceeded)), rules, "Ignore Completed"},
		"another value is drained":               {label("drain"), rules, "Evict Evictable"},
		"an empty value is drained":              {label(""), rules, "Evict Evictable"},
		"no label is drained":                    {newPod("p"), rules, "Evict Evictable"},
		"a DaemonSet pod is one before all":      {label("wait-completed", ds), rules, "Ignore DaemonSetPod"},
		"a mirror pod is one before all":         {label("wait-completed", mirror), rules, "Ignore MirrorPod"},
		"a terminating pod is skipped":           {label("skip", terminating), rules, "Ignore Skipped"},
		"a terminating pod is no longer to wait": {label("wait-completed", terminating), rules, "Wait Terminating"},
	})
	ordered := with(setOrder(3), drainLabel)
	decide(t, full, map[string]ruling{
		"a skipped pod keeps its order": {label("Skip"), ordered, "Ignore Skipped 3: a rule excludes the Pod from the drain"},
		"a pod that completes has none": {label("waitcompleted"), ordered, "Wait WaitCompleted: waiting for completion"},
		"an unknown value is warned about": {label("never"), ordered,
			`Evict Evictable 3; warning: label cluster.x-k8s.io/drain has the unknown value "never"`},
	})
}

func TestOrderRules(t *testing.T) {
	failed := inPhase(corev1.PodFailed)
	fourth, volumes := with(setOrder(4)), with(setOrder(4), OneAtATimeWithVolumes)
	completing := with(setOrder(4), waitCompleted)
	decide(t, brief, map[string]ruling{
		"no rule, no order":                         {newPod("p", ofPriority(7)), DefaultRules(), "Evict Evictable"},
		"a pod without volumes keeps its order":     {newPod("p"), volumes, "Evict Evictable 4"},
		"a terminating pod with a volume is first":  {newPod("p", claiming("c"), terminating), volumes, "Wait Terminating 536870912"},
		"a finished pod has an order as well":       {newPod("p", failed), fourth, "Evict Finished 4"},
		"a terminating pod has an order as well":    {newPod("p", terminating), fourth, "Wait Terminating 4"},
		"an ignored pod has an order as well":       {newPod("p", mirror), fourth, "Ignore MirrorPod 4"},
		"a completed pod keeps its order":           {newPod("p", failed), completing, "Ignore Completed 4"},
		"a pod that is to complete keeps its order": {newPod("p"), completing, "Wait WaitCompleted 4"},
	})
}

func TestOneAtATime(t *testing.T) {
	pods := []*corev1.Pod{newPod("plain")}
	for i := range 20 {
		pods = append(pods, newPod(fmt.Sprintf("data-%d", i), claiming("c")))
	}
	rules := append(ClusterAPIRules(nil, nil), OneAtATimeWithVolumes)
	leave := func() (left []string) {
		for _, d := range planOf(rules, Facts{}, pods...).Decisions {
			if d.Action.leaves() {
				left = append(left, d.Pod.Name)
			}
		}
		pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return slices.Contains(left, pod.Name) })
		return left
	}
	require.Equal(t, []string{"plain"}, leave())
	for range 20 {
		require.Len(t, leave(), 1)
	}
}

func TestDecide(t *testing.T) {
	gives := func(v Verdict, err error) Rule { return func(*corev1.Pod, Verdict) (Verdict, error) { return v, err } }
	allow, deny := gives(Verdict{Action: Evict, Reason: "Allowed"}, nil), gives(Verdict{Action: Deny, Reason: "Mine"}, nil)
	fail := gives(Verdict{Action: Evict}, errors.New("lookup failed"))
	quiet := func(_ *corev1.Pod, prev Verdict) (Verdict, error) { return prev, nil }
	const failed, silent = "Deny RuleFailed: lookup failed", "Deny NoVerdict: no drain rule decided about the pod"
	p := newPod("p")
	decide(t, full, map[string]ruling{
		"an error is final":                     {p, []Rule{fail, allow}, failed},
		"an error beats an earlier permission":  {p, []Rule{allow, fail}, failed},
		"a denial is final":                     {p, []Rule{deny, allow}, "Deny Mine"},
		"silence denies":                        {p, []Rule{quiet}, silent},
		"no rules deny":                         {p, nil, silent},
		"an action of a later version denies":   {p, []Rule{gives(Verdict{Action: "Later"}, nil)}, silent},
		"a later rule may override permissions": {p, []Rule{quiet, allow, deny}, "Deny Mine"},
		"a nil rule denies":                     {p, []Rule{evictRest, nil}, "Deny RuleFailed: drain rule 1 is nil"},
	})
}

func TestWaitCompleted(t *testing.T) {
	jobs := when(func(p *corev1.Pod) bool { return p.Labels["job"] == "yes" }, waitCompleted)
	job, succeeded := labeled("job", "yes"), inPhase(corev1.PodSucceeded)
	pods := []*corev1.Pod{
		newPod("done", job, succeeded), newPod("failed", job, inPhase(corev1.PodFailed)),
		newPod("leaving", job, succeeded, terminating), // Cluster API #12920 waits for these three
		newPod("daemon", job, ownedBy("apps/v1", "DaemonSet")),
		newPod("running", job), newPod("deleted", job, terminating), newPod("later"),
	}
	rules := []Rule{named(setOrder(1), "later"), ignoreMirrorPods, ignoreDaemonSetPods, jobs, waitForTerminating, evictFinished, evictRest}
	require.Equal(t, []string{
		"daemon Ignore DaemonSetPod", "deleted Wait Terminating", "done Ignore Completed", "failed Ignore Completed",
		"leaving Ignore Completed", "running Wait WaitCompleted", "later Wait LowerOrder",
	}, lines(planOf(rules, Facts{}, pods...)))
	require.True(t, planOf(rules, Facts{}, pods[:4]...).Done())

	plan := planOf(with(named(setOrder(-1), "early"), named(waitCompleted, "job")), Facts{}, newPod("job"), newPod("early"))
	require.Equal(t, "* Pod default/early: to be evicted\n"+
		"After above Pods have been removed from the Node, waiting for the following Pods to complete without eviction: default/job",
		plan.Summary())
	require.Equal(t, Counts{Total: 2, Evictable: 1, Waiting: 1}, plan.Counts())
}
