package machinepool

import (
	"fmt"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
)

// failure is trouble that does not go away by itself, as Cluster API's deprecated failureReason and failureMessage say it.
type failure struct{ Reason, Message string }

// reasonInvalidConfiguration is Cluster API's word for an object that cannot work as it is.
const reasonInvalidConfiguration = "InvalidConfiguration"

const maxFailureReasonLength = 250 // the schema allows 256

// failureOf is the failure that a referenced object reports, in the words that Cluster API gives it.
func failureOf(e external.Object, reason, message string) failure {
	if message != "" {
		message = fmt.Sprintf("Failure detected from referenced resource %v with name %q: %s", e.GVK, e.Ref.Name, message)
	}
	return failure{pass.Bounded(reason, maxFailureReasonLength), pass.Bounded(message, pass.MaxMessageLength)}
}

// finding is what a pass knows of the failure of one referenced object: nothing while that was not read.
type finding = contract.Opt[failure]

// decideFailure returns the failure that the pool reports: the first one that is found. It ends when no object reports one any more; while
// an object was not read, an earlier failure stays.
func decideFailure(before failure, findings ...finding) failure {
	unread := false
	for _, one := range findings {
		f, known := one.Get()
		if known && f != (failure{}) {
			return f
		}
		unread = unread || !known
	}
	if unread {
		return before
	}
	return failure{}
}
