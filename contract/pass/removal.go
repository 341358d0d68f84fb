package pass

import (
	"fmt"

	"github.com/machinist-dev/machinist/contract/external"
)

// Removal is the decision about an object that an object in deletion refers to.
type Removal uint8

// Values of Removal.
const (
	// RemovalDone: there is no object to delete, or it belongs to another controller.
	RemovalDone Removal = iota
	// RemovalDelete: request its deletion, and wait until it is gone.
	RemovalDelete
	// RemovalConfirm: continue when the API server confirms that the object is gone.
	RemovalConfirm
	// RemovalConfirmKind: continue when the API server confirms that the kind is gone.
	RemovalConfirmKind
	// RemovalWait: a person has to fix a problem first, or a read has to succeed.
	RemovalWait
)

// DecideRemoval decides about one referenced object, and returns the message for the time of the wait. lost says what cannot be found
// again without the object when its kind is missing; it is empty when no instance depends on the object.
func DecideRemoval(e external.Object, lost string) (Removal, string) {
	name := e.Ref.Kind + " " + e.Ref.Name
	switch e.Presence {
	case external.NotReferenced:
		return RemovalDone, ""
	case external.Present:
		if e.Foreign {
			return RemovalDone, ""
		}
		return RemovalDelete, fmt.Sprintf("Waiting for %s to be deleted", name)
	case external.Absent:
		return RemovalConfirm, name + " exists, but has not been seen yet"
	case external.KindMissing:
		if lost != "" {
			return RemovalWait, e.Problem.Message + "; " + lost
		}
		return RemovalConfirmKind, e.Problem.Message
	case external.Unread:
	}
	if e.Problem.Message != "" {
		return RemovalWait, e.Problem.Message
	}
	return RemovalWait, name + " could not be read yet"
}
