package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/drain"
)

// rulesOf returns what the flags mean for package drain.
func (o *options) rulesOf(now func() time.Time) []drain.Rule {
	rules := drain.KubectlRules(drain.KubectlOptions{
		Force: o.force, IgnoreAllDaemonSets: o.ignoreDaemonSets, DeleteEmptyDirData: o.deleteEmptyDirData,
		SkipWaitForDeleteTimeout: time.Duration(o.skipWaitForDelete) * time.Second, Now: now, JudgeFinishedDaemonSetPods: true,
	})
	return append(rules, func(_ *corev1.Pod, prev drain.Verdict) (drain.Verdict, error) {
		if prev.Action == drain.Evict && o.disableEviction {
			prev.Action = drain.Delete
		}
		if o.gracePeriod != podsOwn {
			prev.GracePeriodSeconds = new(int64(o.gracePeriod))
		}
		return prev, nil
	})
}
