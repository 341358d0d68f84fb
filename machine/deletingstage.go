package machine

import (
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/drain"
)

const (
	// longDeletion is the duration after which Ready says that a deletion takes long. longDrain is the duration after which it names what
	// delays the drain. The values are Cluster API's.
	longDeletion = 15 * time.Minute
	longDrain    = 5 * time.Minute
)

// stageFacts are the inputs of decideStage.
type stageFacts struct {
	// Reason is the one of Deleting.
	Reason string
	// Deleting is when the deletion was requested, and DrainStarted when the drain began; zero before.
	Deleting, DrainStarted time.Time
	// Blockers and Counts are the pods that the drain waits for.
	Blockers []drain.Blocker
	Counts   drain.Counts
	Now      time.Time
}

// decideStage returns the stage of a deletion as one of a few fixed lines: the owners of many Machines group them by equal Ready messages.
// again is when the line changes with time at the latest, zero when it does not.
func decideStage(f stageFacts) (text string, again time.Duration) {
	if left := f.Deleting.Add(longDeletion).Sub(f.Now); left > 0 {
		return "Machine deletion in progress, stage: " + f.Reason, left
	}
	text = "Machine deletion in progress since more than 15m, stage: " + f.Reason
	if f.Reason != ReasonDrainingNode || f.DrainStarted.IsZero() {
		return text, 0
	}
	if left := f.DrainStarted.Add(longDrain).Sub(f.Now); left > 0 {
		return text, left
	}
	if delays := delaysOf(f.Blockers, f.Counts); len(delays) > 0 {
		text += ", delay likely due to " + strings.Join(delays, ", ")
	}
	return text, 0
}

// delaysOf names what delays a drain. It compares reasons, because messages change.
func delaysOf(blockers []drain.Blocker, counts drain.Counts) []string {
	budgets := slices.ContainsFunc(blockers, func(b drain.Blocker) bool { return isBudget(b.Reason) })
	errs := slices.ContainsFunc(blockers, func(b drain.Blocker) bool { return !isBudget(b.Reason) })
	var delays []string
	for _, delay := range []struct {
		holds bool
		name  string
	}{
		{budgets, "PodDisruptionBudgets"},
		{counts.Terminating > 0, "Pods not terminating"},
		{errs, "Pod eviction errors"},
		{counts.Completing > 0, "Pods not completed yet"},
	} {
		if delay.holds {
			delays = append(delays, delay.name)
		}
	}
	return delays
}

func isBudget(reason drain.Reason) bool {
	return slices.Contains([]drain.Reason{
		drain.ReasonBudgetExhausted, drain.ReasonBudgetStale, drain.ReasonBudgetNeverAllows, drain.ReasonMultipleBudgets,
	}, reason)
}
