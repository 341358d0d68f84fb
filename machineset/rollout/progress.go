package rollout

import (
	"time"

	"github.com/machinist-dev/machinist/contract"
)

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
