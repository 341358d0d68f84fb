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
	// Victims are the Machines to delete when the set shrinks, in the order in which they were chosen. Mark them before the replicas are
	// written: the set deletes marked Machines first. There may be fewer than From-To, when Machines in deletion or that never existed make up
	// for the rest, and never more.
	Victims []scale.Victim
}

// Decision is the result of Plan.
type Decision struct {
	// Current is the set with the deployment's template; empty while there is none. Of several, it is the oldest one with replicas, or else
	// the oldest.
	Current struct {
		Name string
		UID  types.UID
	}
	// Outdated are the UIDs of the other sets that have Machines or may get some, by creation and name. With OnDelete, a second set with the
	// template of the deployment is not outdated.
	Outdated []types.UID
	// Create is the number of replicas of the set to create; absent for none.
	Create contract.Opt[int]
	// MadeFor is the value of Facts.After for which the set is created, or zero: it is recorded in its scale.Stamp.
	MadeFor time.Time
	// Revision is the revision of the current set, or of the one to create.
	Revision int64
	// Unmark are the UIDs of Machines with a mark of this deployment that no plan needs any more. Remove these marks first.
	Unmark map[types.UID]bool
	// Replicas are changed sets, those that shrink first and then by creation and name. Write them in this order.
	Replicas []Change
	// InPlace are the new states of Machines that are updated in place, by their UIDs: Candidate and Selected, both for the current set, or
	// Moved for an updated Machine that the current set must control. NotInPlace removes the state of a Machine that already belongs to the
	// current set.
	InPlace map[types.UID]InPlaceState
	// DeleteSets are outdated sets beyond the history limit, without Machines, the oldest revision first.
	DeleteSets []scale.Victim
	// Blocked are the reasons that the rollout waits for, as messages for a person, sorted.
	Blocked []string
	// Stalled: the rollout does not continue, because it is paused or the current set cannot create, and not only because the controller of
	// that set has not observed it yet. Each set retains its Machines.
	Stalled bool
	// Complete: all Machines are up to date and available, as many as desired, and no other exists.
	Complete bool
}
