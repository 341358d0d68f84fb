package machine

import (
	"context"
	"fmt"

	"github.com/machinist-dev/machinist/contract/external"
)

// failure is a problem that does not end without a change, as in Cluster API's deprecated failureReason and failureMessage. No decision
// depends on it.
type failure struct{ Reason, Message string }

// reasonInvalidConfiguration is Cluster API's reason for a Machine that cannot work with its configuration.
const reasonInvalidConfiguration = "InvalidConfiguration"

const maxFailureReasonLength = 250 // the schema allows 256

// failureOf returns the failure that a referenced object reports, in Cluster API's words.
func failureOf(e external.Object, reason, message string) failure {
	if message != "" {
		message = fmt.Sprintf("Failure detected from referenced resource %v with name %q: %s", e.GVK, e.Ref.Name, message)
	}
	return failure{reason, message}
}

// fails records a failure. An empty value leaves the recorded one as it is: a failure is never cleared.
func (s *Scope) fails(f failure) {
	if f == (failure{}) {
		return
	}
	if f.Reason == "" {
		f.Reason = s.State.FailureReason
	}
	if f.Message == "" {
		f.Message = s.State.FailureMessage
	}
	s.SetFailure(bounded(f.Reason, maxFailureReasonLength), bounded(f.Message, maxMessageLength))
}

// failWithoutInfrastructure records that the infrastructure object of a running Machine was deleted. The record is permanent, so the API
// server is asked once to confirm it, until the object is back. The step does not retry: the return of the object is an event.
func (s *Scope) failWithoutInfrastructure(ctx context.Context) error {
	e := s.Infrastructure
	if e.Presence == external.Present {
		s.env.memory.setLost(s.State.Key, lostObject{})
	}
	if e.Presence != external.Absent || !s.State.InfrastructureReady.Or(false) || !s.State.Deleting.IsZero() {
		return nil
	}
	f := failure{reasonInvalidConfiguration, fmt.Sprintf("Machine infrastructure resource %s %s has been deleted after provisioning was completed",
		e.Ref.Kind, s.refKey(e))}
	if s.State.FailureReason == f.Reason && s.State.FailureMessage == f.Message {
		return nil
	}
	lost := lostObject{machine: s.State.UID, object: goneObject{gvk: e.GVK, name: s.refKey(e)}}
	if !s.env.memory.isLost(s.State.Key, lost) { // not every kind stores a failure
		if gone, err := external.ConfirmAbsent(ctx, s.env.ports.APIReader, e.GVK, s.refKey(e)); err != nil || !gone {
			return err
		}
		s.env.memory.setLost(s.State.Key, lost)
	}
	s.fails(f)
	return nil
}
