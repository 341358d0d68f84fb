package machine

import (
	"fmt"

	"github.com/machinist-dev/machinist/contract/external"
)

// removal is what to do about a referenced object of a Machine that is being deleted.
type removal uint8

const (
	// removalDone: there is nothing to remove, or it is not ours.
	removalDone removal = iota
	// removalDelete: ask for its deletion, and wait until it is gone.
	removalDelete
	// removalConfirm: go on when the API server says that the object is gone.
	removalConfirm
	// removalConfirmKind: go on when the API server says that the kind is gone.
	removalConfirmKind
	// removalWait: a person has to mend something first, or a read has to come back.
	removalWait
)

// decideRemoval decides about one object, with the message for as long as it is waited for. mattered says that something
// real may stand behind the object, which nobody could find again if its kind is missing.
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
