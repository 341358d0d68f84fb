package drain

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The whole is held against kubectl's code in package drain/kubectl; these cases say in words what is meant.
func TestKubectlRules(t *testing.T) {
	since := func(age time.Duration) podOption {
		return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon.Add(-age)} }
	}
	web, agent, failed := ownedBy("apps/v1", "ReplicaSet"), ownedBy("apps/v1", "DaemonSet"), inPhase(corev1.PodFailed)
	all := func(change func(*KubectlOptions)) []Rule {
		o := KubectlOptions{Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true}
		change(&o)
		return KubectlRules(o)
	}
	found := func(err error) func(o *KubectlOptions) {
		return func(o *KubectlOptions) {
			o.DaemonSets = func(string, string) (*appsv1.DaemonSet, error) { return nil, err }
		}
	}
	gone := found(apierrors.NewNotFound(appsv1.Resource("daemonsets"), "owner"))
	none, flags := KubectlRules(KubectlOptions{}), all(func(*KubectlOptions) {})
	stuck := all(func(o *KubectlOptions) {
		o.SkipWaitForDeleteTimeout, o.Now = time.Minute, func() time.Time { return noon }
	})
	clockless := all(func(o *KubectlOptions) { o.SkipWaitForDeleteTimeout = time.Minute })
	unselected := all(func(o *KubectlOptions) { o.PodSelector, o.SkipWaitForDeleteTimeout = labels.Nothing(), time.Minute })
	judged := all(func(o *KubectlOptions) { o.JudgeFinishedDaemonSetPods = true })
	const (
		waits    = "Wait Terminating: deletionTimestamp set, but still not removed from the Node"
		ignores  = "Ignore DaemonSetPod: ignoring DaemonSet-managed Pods; warning: ignoring DaemonSet-managed Pods"
		data     = "; warning: deleting Pods with local storage"
		force    = "; warning: deleting Pods that declare no controller"
		finished = "Evict Finished: evicting finished Pod"
		unforced = "Deny Unmanaged: cannot delete Pods that declare no controller (use --force to override)"
	)
	decide(t, full, map[string]ruling{
		"a replicated pod goes":                            {newPod("p", web), none, "Evict Evictable"},
		"a finished pod goes":                              {newPod("p", failed, withEmptyDir), none, finished},
		"a mirror pod is silent":                           {newPod("p", mirror), flags, "Ignore MirrorPod: mirror pod of a static pod"},
		"a pod without a controller needs force":           {newPod("p"), none, unforced},
		"a pod without a controller under force":           {newPod("p"), flags, "Evict Evictable" + force},
		"all warnings are kept":                            {newPod("p", withEmptyDir), flags, "Evict Evictable" + data + force},
		"a DaemonSet pod is ignored with a warning":        {newPod("p", agent), flags, ignores},
		"a finished DaemonSet pod goes":                    {newPod("p", agent, failed), flags, finished},
		"a finished DaemonSet pod stays when it is judged": {newPod("p", agent, failed), judged, ignores},
		"a DaemonSet of another version is none":           {newPod("p", ownedBy("apps/v1beta2", "DaemonSet")), flags, "Evict Evictable"},
		"an orphan of a DaemonSet under force": {newPod("p", agent), all(gone),
			`Evict Evictable; warning: daemonsets.apps "owner" not found`},
		"a terminating pod is waited for":           {newPod("p", web, since(0)), none, waits},
		"warnings about a terminating pod are kept": {newPod("p", withEmptyDir, since(0)), flags, waits + data + force},
		"a stuck pod is waited for until the limit": {newPod("p", web, since(61*time.Second-1)), stuck, waits},
		"a pod that is not selected is not looked at": {newPod("p", since(time.Hour)), unselected,
			"Ignore NotSelected: the pod selector does not select the Pod"},
		"without a clock nothing is stuck": {newPod("p", web, since(time.Hour)), clockless,
			"Deny RuleFailed: " + errNoClock.Error()},
		"local data needs its flag": {newPod("p", web, withEmptyDir), none,
			"Deny LocalData: cannot delete Pods with local storage (use --delete-emptydir-data to override)"},
		"a DaemonSet pod needs its flag": {newPod("p", agent), none,
			"Deny DaemonSetPod: cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"},
		"an orphan of a DaemonSet needs force": {newPod("p", agent), all(func(o *KubectlOptions) { gone(o); o.Force = false }),
			`Deny Orphaned: cannot delete daemonsets.apps "owner" not found`},
		"an unknown DaemonSet denies, also under force": {newPod("p", agent), all(found(errors.New("cache not synced"))),
			"Deny RuleFailed: cannot delete cache not synced"},
		"what was said about going ends with a denial": {newPod("p", withEmptyDir), all(func(o *KubectlOptions) { o.Force = false }), unforced},
		"a stuck pod is left out after it": {newPod("p", web, since(61*time.Second)), stuck,
			"Ignore StuckTerminating: has DeletionTimestamp older than 60 seconds, skipping"},
		"a nil additional rule denies": {newPod("p", web), all(func(o *KubectlOptions) { o.Additional = []Rule{nil} }),
			"Deny RuleFailed: drain rule 6 is nil"},
		"additional rules are asked about what goes": {newPod("p", web), all(func(o *KubectlOptions) { o.Additional = []Rule{setOrder(5)} }),
			"Evict Evictable 5"},
		"and about nothing that is ignored": {newPod("p", agent), all(func(o *KubectlOptions) { o.Additional = []Rule{setOrder(5)} }), ignores},
	})
	var warnings []string
	for _, w := range planOf(flags, Facts{}, newPod("bare", withEmptyDir)).Warnings() {
		warnings = append(warnings, string(w.Reason)+": "+w.Message)
	}
	require.Equal(t, []string{"RuleWarning: " + unmanagedWarning, "RuleWarning: " + localStorageWarning}, warnings, "none of them twice")
}
