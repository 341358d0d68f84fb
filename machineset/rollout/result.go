package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Change is a new number of replicas of a set.
type Change struct {
	Set      string
	UID      types.UID
	From, To int
	// Victims are the Machines that go when the set shrinks, sorted in the order in which they were chosen. Mark them before the replicas
	// are written: the set deletes marked Machines first. There are fewer than From-To when Machines in deletion, or ones that never
	// existed, make up for the rest, and never more.
	Victims []scale.Victim
}

// Decision is what a deployment does next.
type Decision struct {
	// Current is the set that has the deployment's template; empty while there is none. Of several the oldest one that has replicas is
	// current, or else the oldest.
	Current struct {
		Name string
		UID  types.UID
	}
	// Outdated are the UIDs of the sets beside the current one that have Machines or may get some, by creation and name. OnDelete leaves a
	// second set with the template of the deployment as it is.
	Outdated []types.UID
	// Create is the number of replicas of the set to create; absent when none is to be created.
	Create contract.Opt[int]
	// MadeFor is the value of Facts.After that the set to create is made for, zero without: it is recorded in its scale.Stamp.
	MadeFor time.Time
	// Revision is what the current set, or the one to create, has to be numbered with.
	Revision int64
	// Unmark are the UIDs of Machines with a mark of this deployment that no plan needs any more. Do this first.
	Unmark map[types.UID]bool
	// Replicas are changed sets, those that shrink first and then by creation and name. Write them in this order.
	Replicas []Change
	// InPlace are the states to bring Machines to that are updated in place, by their UIDs: Candidate and Selected, both for the current set,
	// or, for an updated Machine that is to be controlled by the current set, Moved. NotInPlace takes the state away from a Machine that
	// belongs to the current set already.
	InPlace map[types.UID]InPlaceState
	// DeleteSets are outdated sets beyond the history limit, the oldest revision first. None has a Machine.
	DeleteSets []scale.Victim
	// Blocked is what the rollout waits for, as messages for a person, sorted.
	Blocked []string
	// Stands: the rollout does not go on, because it is paused or the current set cannot create, and not only until the controller of that
	// set has looked at it. Each set keeps what it has.
	Stands bool
	// Complete: all Machines are up to date and available, as many as desired, and no other exists.
	Complete bool
}
