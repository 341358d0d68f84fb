package rollout

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Machine is one Machine of a set as input of a plan.
type Machine struct {
	// Machine is the input of the set's own plan. Marked includes marks of the deployment.
	scale.Machine
	// Mine: the delete mark was written by this deployment, and only repeats an earlier plan. A mark of others requests that the Machine is
	// deleted before the rest, in any set.
	Mine bool
	// InPlace is the progress of the Machine's update in place; only the strategies InPlaceAuto and InPlaceManual use it, except for Moved and
	// Received. InPlaceSet is the name of the set to whose template the Machine is updated.
	InPlace    InPlaceState
	InPlaceSet string
}

// InPlaceState is the progress of a Machine's update in place: the state of contract.InPlace, except for Received. An update hook, which a
// step or an external controller implements, changes a selected Machine to Updated or Failed. Rule: Gardener's labels candidate-for-update,
// selected-for-update and update-result.
type InPlaceState string

// Values of InPlaceState.
const (
	// NotInPlace: the Machine has no state yet.
	NotInPlace InPlaceState = ""
	// Candidate: a user may select it (InPlaceManual). The plan selects Machines, too (InPlaceAuto).
	Candidate InPlaceState = contract.InPlaceCandidate
	// Selected: it is being updated, and counts as unavailable.
	Selected InPlaceState = contract.InPlaceSelected
	// Updated: the update succeeded. The Machine moves to the current set.
	Updated InPlaceState = contract.InPlaceUpdated
	// Failed: the update failed. The Machine counts as unavailable and waits for a person, or for remediation.
	Failed InPlaceState = contract.InPlaceFailed
	// Moved: it belongs to the current set, which does not count it before the plan has raised its replicas. Outdated sets must be prevented
	// from creating while Machines move, because their replicas follow in the plan after the move.
	Moved InPlaceState = contract.InPlaceMoved
	// Received: it was moved, and its set counts it.
	Received InPlaceState = "received"
)

// Set is a MachineSet of the deployment.
type Set struct {
	Name    string
	UID     types.UID
	Created time.Time
	// MadeFor is the value of Facts.After for which the deployment created the set, or zero: by the API server's clock, which sets the
	// creation time of the set, that time may still be in the future. See scale.Stamp.
	MadeFor time.Time
	// Revision is the value of contract.RevisionAnnotation, or 0.
	Revision int64
	// Matches: the set has the template of the deployment. See Facts.After.
	Matches bool
	// Replicas is spec.replicas; absent counts as 0.
	Replicas int
	// Deleting: the set is being deleted. Its Machines count as Machines in deletion.
	Deleting bool
	// Frozen: the set creates nothing, and a plan does not raise its replicas. Stuck: it could not create a Machine. Unseen: its controller
	// has not observed it yet, so it is unknown whether it is stuck.
	Frozen, Stuck, Unseen bool
	// Reserved is how many Machines the set may have created that are not in Machines: slots of its ledger.
	Reserved int
	// Machines are those that the set controls, including those that are being deleted.
	Machines []Machine
}

// Type is the type of a strategy.
type Type string

// The strategies. Rule: Cluster API has the first two, Gardener all but OnDelete.
const (
	// RollingUpdate replaces Machines within the bounds of surge and unavailability.
	RollingUpdate Type = "RollingUpdate"
	// OnDelete replaces a Machine when a user deletes it.
	OnDelete Type = "OnDelete"
	// Recreate deletes all outdated Machines and creates new ones when those are gone.
	Recreate Type = "Recreate"
	// InPlaceAuto updates Machines without replacing them, and selects them itself.
	InPlaceAuto Type = "InPlaceAuto"
	// InPlaceManual updates those that a user selects.
	InPlaceManual Type = "InPlaceManual"
)

// Strategy defines how outdated Machines are replaced. See Resolve.
type Strategy struct {
	// Type is the type; empty means RollingUpdate.
	Type Type
	// MaxSurge is how many Machines there may be beyond the desired number; MaxUnavailable is how many of the desired ones may be unavailable
	// because of the plan. Only RollingUpdate and InPlaceAuto have a surge.
	MaxSurge, MaxUnavailable int
}

// Resolve returns the strategy for a number of desired Machines: percentages of surge are rounded up and those of unavailability down,
// and when both are 0, one Machine may be unavailable. Absent values mean a surge of 1 and an unavailability of 0, as in Cluster API. The
// error names the value that is neither a number nor a percentage. Rule: Kubernetes' ResolveFenceposts.
func Resolve(kind Type, surge, unavailable contract.Opt[intstr.IntOrString], desired int) (Strategy, error) {
	surgeValue, unavailableValue := surge.Or(intstr.FromInt32(1)), unavailable.Or(intstr.FromInt32(0))
	up, err := intstr.GetScaledValueFromIntOrPercent(&surgeValue, desired, true)
	if err != nil {
		return Strategy{}, fmt.Errorf("maxSurge: %w", err)
	}
	down, err := intstr.GetScaledValueFromIntOrPercent(&unavailableValue, desired, false)
	if err != nil {
		return Strategy{}, fmt.Errorf("maxUnavailable: %w", err)
	}
	s := Strategy{Type: cmp.Or(kind, RollingUpdate), MaxSurge: max(up, 0), MaxUnavailable: max(down, 0)}
	if s.MaxSurge == 0 && s.MaxUnavailable == 0 {
		s.MaxUnavailable = 1
	}
	return s, nil
}

// Facts are the inputs of a plan. They are not changed.
type Facts struct {
	// Desired is the desired number of Machines, absent while the deployment has none: then nothing is planned.
	Desired  contract.Opt[int]
	Strategy Strategy
	// Paused stops the rollout; scaling continues.
	Paused bool
	// Sets are all sets of the deployment, in any order.
	Sets []Set
	// Holds are why no Machines can be created from the template of the deployment: then no Machine of another set is deleted for them.
	Holds []string
	// After is when a rollout starts although the template is unchanged: from then on, and once a set was made for it (Set.MadeFor), a set
	// that was created before it and not made for it is outdated. Zero means never. It has the granularity of a second. Rule: Cluster API's
	// spec.rollout.after.
	After time.Time
	// Now is the time of the decision.
	Now time.Time
	// HistoryLimit is how many outdated sets without Machines are retained; absent retains all.
	HistoryLimit contract.Opt[int]
	// Order is the order in which equal Machines are deleted.
	Order scale.Order
}
