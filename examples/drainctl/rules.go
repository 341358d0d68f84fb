package main

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// rulesOf says in the words of package drain what the flags mean. orphans are DaemonSets that pods name and that are not there.
func (o *options) rulesOf(orphans map[types.NamespacedName]bool, now func() time.Time) ([]drain.Rule, error) {
	var rules []drain.Rule
	switch o.order {
	case orderCriticalLast:
		rules = append(rules, drain.SystemCriticalLast)
	case orderPriority:
		rules = append(rules, drain.OrderByPriority(), drain.SystemCriticalLast)
	}
	if o.rules == rulesCAPI {
		return o.deleting(append(rules, drain.ClusterAPIRules(nil, nil)...)), nil
	}
	selector, err := labels.Parse(o.podSelector)
	if err != nil {
		return nil, fmt.Errorf("--pod-selector %q: %w", o.podSelector, err)
	}
	return o.deleting(append(rules, drain.KubectlRules(drain.KubectlOptions{
		Force:                    o.force,
		IgnoreAllDaemonSets:      o.ignoreDaemonSets,
		DeleteEmptyDirData:       o.deleteEmptyDirData,
		PodSelector:              selector,
		SkipWaitForDeleteTimeout: time.Duration(o.skipWaitForDelete) * time.Second,
		Now:                      now,
		// Only what was missing at the start is an orphan: a DaemonSet that is created during the drain is not looked for.
		DaemonSets: func(namespace, name string) (*appsv1.DaemonSet, error) {
			if orphans[types.NamespacedName{Namespace: namespace, Name: name}] {
				return nil, apierrors.NewNotFound(schema.GroupResource{Group: appsv1.GroupName, Resource: "daemonsets"}, name)
			}
			return &appsv1.DaemonSet{}, nil
		},
		JudgeFinishedDaemonSetPods: true,
	})...)), nil
}

// deleting adds --disable-eviction to rules.
func (o *options) deleting(rules []drain.Rule) []drain.Rule {
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

// policyOf says how the drain escalates.
func (o *options) policyOf() drain.Policy {
	var policy drain.Policy
	if o.gracePeriod != podsOwn {
		policy.GracePeriod = new(int64(o.gracePeriod))
	}
	policy.DeleteAfter = o.deleteAfter
	return policy
}

// stands says whether an obstacle keeps the drain from ever ending under these flags, unless a webhook acts on the evictions.
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
func remedyOf(ob *drain.Obstacle) string {
	switch ob.Reason {
	case drain.ReasonLocalData:
		return "add --delete-emptydir-data if their data may be lost"
	case drain.ReasonUnmanaged:
		return "add --force if the Pods do not have to be created again"
	case drain.ReasonOrphaned:
		return "add --force: the DaemonSet is gone, and nothing creates the Pod again"
	case drain.ReasonDaemonSetPod:
		return "leave --ignore-daemonsets on: the Pods do no harm on a cordoned Node"
	case drain.ReasonBudgetNeverAllows, drain.ReasonMultipleBudgets:
		return ob.Remedy + "; or --disable-eviction, which ignores budgets"
	default:
		return ob.Remedy
	}
}
