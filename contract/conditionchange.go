package contract

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ChangedConditions returns those of want that differ from have, ready to be written for a generation. A time of transition moves only
// with the status; it is the one that a condition brings along, say from the object that it mirrors, or else now, in whole seconds.
// Neither list is changed or kept. Rule: metav1.Condition.
func ChangedConditions(have, want []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	var changed []metav1.Condition
	for _, c := range want {
		c.ObservedGeneration = generation
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = metav1.NewTime(now)
		}
		c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.UTC().Truncate(time.Second))
		if at := slices.IndexFunc(have, func(old metav1.Condition) bool { return old.Type == c.Type }); at >= 0 {
			old := have[at]
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message && old.ObservedGeneration == generation {
				continue
			}
		}
		changed = append(changed, c)
	}
	return changed
}
