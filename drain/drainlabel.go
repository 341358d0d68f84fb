package drain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// DrainLabel is a label by which a pod itself says how it wants to be drained.
type DrainLabel struct {
	Key string
	// Skip are the values that leave the pod alone, in any case.
	Skip []string
	// WaitCompleted are the values that wait for the pod's completion, in any case and with or without their first dash.
	WaitCompleted []string
}

// ClusterAPIDrainLabel returns Cluster API's label (capi-machine 3.2): cluster.x-k8s.io/drain with the values skip,
// wait-completed and waitcompleted, in any case.
func ClusterAPIDrainLabel() DrainLabel {
	return DrainLabel{Key: "cluster.x-k8s.io/drain", Skip: []string{"skip"}, WaitCompleted: []string{"wait-completed"}}
}

// Rule returns the [Rule] of the label. Pods that wait for completion have order 0, as in Cluster API. Another value decides
// nothing, as in Cluster API, and shows as a warning of the pod.
func (l DrainLabel) Rule() Rule {
	skip, wait := slices.Clone(l.Skip), make([]string, 0, len(l.WaitCompleted))
	for _, value := range l.WaitCompleted {
		wait = append(wait, withoutDash(value))
	}
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		value, found := pod.Labels[l.Key]
		is := func(other string) bool { return strings.EqualFold(value, other) }
		if !found || prev.Action != Undecided {
			return prev, nil
		}
		if slices.ContainsFunc(skip, is) {
			return Skip(pod, prev)
		}
		value = withoutDash(value)
		if slices.ContainsFunc(wait, is) {
			prev.Order = 0
			return WaitCompleted(pod, prev)
		}
		return prev.warn(fmt.Sprintf("label %s has the unknown value %.64q", l.Key, pod.Labels[l.Key])), nil
	}
}

func withoutDash(s string) string { return strings.Replace(s, "-", "", 1) }
