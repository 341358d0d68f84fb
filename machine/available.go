package machine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decideAvailable: a Machine is available when it has been ready for minReadySeconds. since is the transition time of Ready; another
// process may have written it, with a clock that is ahead. again is when the rest of that time is over, zero when the Machine does not
// wait for it.
func decideAvailable(ready metav1.ConditionStatus, since time.Time, minReady time.Duration, now time.Time) (c metav1.Condition, again time.Duration) {
	if ready != metav1.ConditionTrue {
		return condition(ConditionAvailable, metav1.ConditionFalse, ReasonNotReady, ""), 0
	}
	if left := since.Add(minReady).Sub(now); left > 0 && minReady > 0 {
		return condition(ConditionAvailable, metav1.ConditionFalse, ReasonWaitingForMinReadySeconds, ""), left
	}
	return condition(ConditionAvailable, metav1.ConditionTrue, ReasonAvailable, ""), 0
}
