package engine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
)

// ReadReferenced reads an object that the object of the pass refers to, becomes its controller where TakeOwnership does that, and calls
// read with an object that exists. An error of read is a contract violation, and becomes the Problem of the object. Where the object could
// not be read, or it is not known whose it is, the condition of this type becomes Unknown, and the error is returned. gives is that of Own.
func (s *Scope[S, U]) ReadReferenced(
	ctx context.Context, condition string, ref contract.Ref, gives func(metav1.OwnerReference) bool, read func(external.Object) error,
) (external.Object, error) {
	found, err := s.frame.Tracker.Get(ctx, s.Common().Key, ref)
	s.Requeue(found.RetryAfter)
	if err == nil && found.Presence == external.Present {
		if err = s.TakeOwnership(ctx, &found, gives); err != nil {
			found.Presence = external.Unread // it is not known whose it is
		}
	}
	switch {
	case err != nil:
		s.Assert(Condition(condition, metav1.ConditionUnknown, contract.ReasonInternalError, SeeLogs))
	case found.Presence == external.Present:
		if wrong := read(found); wrong != nil && !found.Foreign {
			found.Problem = external.Problem{Reason: external.ReasonContractViolation, Message: wrong.Error()}
		}
	}
	return found, err
}

// Failure is a problem that does not end without a change, as in Cluster API's deprecated failureReason and failureMessage. No decision
// depends on it. The zero Failure is none.
type Failure struct{ Reason, Message string }

// ReasonInvalidConfiguration is Cluster API's reason of a Failure for an object that cannot work as it is configured.
const ReasonInvalidConfiguration = "InvalidConfiguration"

const maxFailureReasonLength = 250 // the schema allows 256

// FailureOf returns the Failure that a referenced object reports, in Cluster API's words, cut to lengths that the API server accepts. It is
// zero when the object reports none.
func FailureOf(e external.Object, reason, message string) Failure {
	if message != "" {
		message = fmt.Sprintf("Failure detected from referenced resource %v with name %q: %s", e.GVK, e.Ref.Name, message)
	}
	return Failure{reason, message}.Bounded()
}

// Bounded returns the Failure with its texts cut to lengths that the API server accepts.
func (f Failure) Bounded() Failure {
	return Failure{Bounded(f.Reason, maxFailureReasonLength), Bounded(f.Message, MaxMessageLength)}
}
