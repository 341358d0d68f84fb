package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/drain"
)

// rulesOf returns what the flags mean for package drain.
func (o *options) rulesOf(now func() time.Time) []drain.Rule {
	rules := drain.KubectlRules(drain.KubectlOptions{
		Force:                      o.force,
		IgnoreAllDaemonSets:        o.ignoreDaemonSets,
		DeleteEmptyDirData:         o.deleteEmptyDirData,
		SkipWaitForDeleteTimeout:   time.Duration(o.skipWaitForDelete) * time.Second,
		Now:                        now,
		JudgeFinishedDaemonSetPods: true,
	})
	if !o.disableEviction {
		return rules
	}
	return append(rules, func(_ *corev1.Pod, prev drain.Verdict) (drain.Verdict, error) {
		if prev.Action == drain.Evict {
			prev.Action = drain.Delete
		}
		return prev, nil
	})
}

// policyOf returns how the drain escalates.
func (o *options) policyOf() drain.Policy {
	var policy drain.Policy
	if o.gracePeriod != podsOwn {
		policy.GracePeriod = new(int64(o.gracePeriod))
	}
	policy.DeleteAfter = o.deleteAfter
	return policy
}

// stands reports whether an obstacle keeps the drain from ever ending under these flags, unless a webhook acts on the evictions.
// A finalizer does not: its controller may be about to remove it, and a plan cannot know.
func (o *options) stands(reason drain.Reason) bool {
	switch reason {
	case drain.ReasonFinalizer:
		return false
	case drain.ReasonBudgetNeverAllows, drain.ReasonMultipleBudgets:
		return o.deleteAfter == 0
	default:
		return true
	}
}

// remedyOf names the flag that opens the way, where there is one.
func remedyOf(ob *drain.Blocker) string {
	switch ob.Reason {
	case drain.ReasonLocalData:
		return "add --delete-emptydir-data if their data may be lost"
	case drain.ReasonUnmanaged:
		return "add --force if the Pods do not have to be created again"
	case drain.ReasonDaemonSetPod:
		return "leave --ignore-daemonsets on: the Pods do no harm on a cordoned Node"
	case drain.ReasonBudgetNeverAllows, drain.ReasonMultipleBudgets:
		return ob.Remedy + "; or --disable-eviction, which ignores budgets"
	default:
		return ob.Remedy
	}
}
