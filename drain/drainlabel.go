package drain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// DrainLabel is a label of a Pod that decides how the Pod is drained.
type DrainLabel struct {
	Key string
	// Skip are the values that exclude the Pod from the drain, case-insensitive.
	Skip []string
	// WaitCompleted are the values that let the drain wait for completion of the Pod, case-insensitive and with or without their first dash.
	WaitCompleted []string
}

// ClusterAPIDrainLabel returns the label of Cluster API (capi-machine 3.2): cluster.x-k8s.io/drain with the case-insensitive values skip,
// wait-completed and waitcompleted.
func ClusterAPIDrainLabel() DrainLabel {
	return DrainLabel{Key: "cluster.x-k8s.io/drain", Skip: []string{"skip"}, WaitCompleted: []string{"wait-completed"}}
}

// Rule returns the [Rule] of the label. Pods whose completion is waited for have order 0, as in Cluster API. Other values do not decide, as
// in Cluster API, and cause a warning about the Pod.
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
