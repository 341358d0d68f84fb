package rollout

import (
	"time"

	"github.com/machinist-dev/machinist/contract"
)

// Counts are the numbers that show whether a rollout makes progress. They are comparable.
type Counts struct {
	// Updated and Available are Machines of the current set and available ones of all sets; Outdated are Machines of the other sets.
	Updated, Available, Outdated int
}

// Progressed says whether there was progress since earlier counts: more Machines are up to date, more are available, or fewer are
// outdated. Rule: Kubernetes' DeploymentProgressing.
func (c Counts) Progressed(earlier Counts) bool {
	return c.Updated > earlier.Updated || c.Available > earlier.Available || c.Outdated < earlier.Outdated
}

// Count returns the counts of facts.
func Count(f Facts) Counts {
	p := newPlan(f, f.Desired.Or(0))
	c := Counts{Available: p.availableNow()}
	for _, s := range p.sets {
		if s == p.current {
			c.Updated = len(s.Machines)
		} else {
			c.Outdated += len(s.Machines)
		}
	}
	return c
}

// Progress is how a rollout stands.
type Progress string

// Values of Progress, which are also reasons of the condition Progressing. Rule: Kubernetes.
const (
	// Progressing: it goes on, or its deadline has not passed.
	Progressing Progress = "ReplicaSetUpdated"
	// Completed: nothing is left to do.
	Completed Progress = "NewReplicaSetAvailable"
	// DeadlineExceeded: there was no progress for longer than the deadline.
	DeadlineExceeded Progress = "ProgressDeadlineExceeded"
	// ProgressPaused: the deadline does not run while the rollout is paused.
	ProgressPaused Progress = "DeploymentPaused"
)

// JudgeProgress says how a rollout stands whose last progress was at a time, and in how long that has to be asked again; 0 means not
// before something changes. An absent deadline, and one of 0 or less, is never exceeded. A last progress of zero counts as now.
func JudgeProgress(complete, paused bool, deadline contract.Opt[time.Duration], last, now time.Time) (Progress, time.Duration) {
	limit, limited := deadline.Get()
	switch {
	case complete:
		return Completed, 0
	case paused:
		return ProgressPaused, 0
	case !limited || limit <= 0:
		return Progressing, 0
	case last.IsZero():
		return Progressing, limit
	}
	if left := last.Add(limit).Sub(now); left > 0 {
		return Progressing, left
	}
	return DeadlineExceeded, 0
}
