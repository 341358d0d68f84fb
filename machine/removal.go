package machine

import (
	"fmt"

	"github.com/machinist-dev/machinist/contract/external"
)

// removal is the decision about a referenced object of a Machine that is being deleted.
type removal uint8

const (
	// removalDone: there is no object to delete, or it belongs to another controller.
	removalDone removal = iota
	// removalDelete: request its deletion, and wait until it is gone.
	removalDelete
	// removalConfirm: continue when the API server confirms that the object is gone.
	removalConfirm
	// removalConfirmKind: continue when the API server confirms that the kind is gone.
	removalConfirmKind
	// removalWait: a person has to fix a problem first, or a read has to succeed.
	removalWait
)

// decideRemoval decides about one object, and returns the message for the time of the wait. mattered is true when a real instance may
// exist for the object, which could not be found again if its kind is missing.
func decideRemoval(e external.Object, mattered bool) (removal, string) {
	name := e.Ref.Kind + " " + e.Ref.Name
	switch e.Presence {
	case external.NotReferenced:
		return removalDone, ""
	case external.Present:
		if e.Foreign {
			return removalDone, ""
		}
		return removalDelete, fmt.Sprintf("Waiting for %s to be deleted", name)
	case external.Absent:
		return removalConfirm, name + " exists, but has not been seen yet"
	case external.KindMissing:
		if mattered {
			return removalWait, e.Problem.Message + "; a machine was made for this Machine and cannot be found without it"
		}
		return removalConfirmKind, e.Problem.Message
	case external.Unread:
	}
	if e.Problem.Message != "" {
		return removalWait, e.Problem.Message
	}
	return removalWait, name + " could not be read yet"
}
