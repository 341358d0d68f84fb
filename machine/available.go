package machine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decideAvailable: a Machine is available when it has been ready for long enough. since is when Ready came to be as it is, perhaps by the
// clock of another process, which may be ahead. again is when the rest of the time is over, zero when nothing is waited for.
func decideAvailable(ready metav1.ConditionStatus, since time.Time, minReady time.Duration, now time.Time) (c metav1.Condition, again time.Duration) {
	if ready != metav1.ConditionTrue {
		return condition(ConditionAvailable, metav1.ConditionFalse, ReasonNotReady, ""), 0
	}
	if left := since.Add(minReady).Sub(now); left > 0 && minReady > 0 {
		return condition(ConditionAvailable, metav1.ConditionFalse, ReasonWaitingForMinReadySeconds, ""), left
	}
	return condition(ConditionAvailable, metav1.ConditionTrue, ReasonAvailable, ""), 0
}
