package instance

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/noderef"
)

// Reasons of a Decision. The reason of an error is its class, and ReasonInvalid for provider.Invalid.
const (
	ReasonCreating       = "InstanceCreating" // the driver creates the instance
	ReasonStopped        = "InstanceStopped"  // the instance is off
	ReasonFailed         = "InstanceFailed"   // the driver reports a failure
	ReasonGone           = "InstanceGone"     // the instance no longer exists, or is being deleted
	ReasonWaitingForRate = "WaitingForRate"   // calls to the driver are limited, and it is not the turn of this Machine
	// ReasonNoInput: the input of the Driver could not be read.
	ReasonNoInput = "NoDriverInput"
	// ReasonWaitingForData: an instance waits for its first-boot data.
	ReasonWaitingForData = "WaitingForBootstrapData"
	// ReasonProviderIDMissing: the instance runs, but its provider ID is empty or identifies no instance.
	ReasonProviderIDMissing = "ProviderIDMissing"
	// ReasonInvalid: the Driver rejects the specification. The name is Cluster API's.
	ReasonInvalid = "InvalidConfiguration"
)

// Facts are the inputs of Decide.
type Facts struct {
	// Driver is the name of the Driver, and Instance its result when Err is nil.
	Driver   string
	Instance provider.Instance
	Err      error
	// Failures is the number of errors in a row; for the class NotFound, the number of such errors since the last result. Recorded: the
	// Machine has a provider ID, so the result is that of a read. Provisioned: a read has shown that the instance runs, or that it IsLost.
	Failures              int
	Recorded, Provisioned bool
}

// IsLost reports whether a failure reason is that of a lost or failed instance.
func IsLost(failureReason string) bool {
	return failureReason == ReasonGone || failureReason == ReasonFailed
}

// Decision is the meaning of a Driver's result.
type Decision struct {
	// Status, Reason and Message are those of the condition about the instance. With Keep they are empty, and the stored condition is
	// retained.
	Status          metav1.ConditionStatus
	Reason, Message string
	Keep            bool
	// Adopt: the provider ID and the addresses are recorded. Provisioned: the instance runs. Off and Gone are for a deletion: the instance is
	// off, or no longer exists. Going: it is being deleted, as the Driver reports, or because it has accepted a deletion by the Keeper.
	Adopt, Provisioned, Off, Gone, Going bool
	// FailureReason and FailureMessage are a permanent failure, or empty.
	FailureReason, FailureMessage string
}

// Condition returns the condition of a type, without times.
func (d *Decision) Condition(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: d.Status, Reason: d.Reason, Message: d.Message}
}

func (d *Decision) set(status metav1.ConditionStatus, reason, message string) {
	d.Status, d.Reason, d.Message = status, reason, message
}

// surelyGone is how many reads in a row must report NotFound for an instance that has run, and neverThere the same for a created instance
// that was never seen running: a cloud may return stale results, for new instances by minutes. The delays between reads grow to a minute.
const (
	surelyGone = 3
	neverThere = 10
)

// Decide returns the meaning of a Driver's result. An instance is lost only after several reads, and after more if none has shown it
// running, because a new instance may be visible late, even one that runs according to the result of its creation. A lost instance is not
// created again: the Machine fails, and its owner decides.
func Decide(f Facts) Decision {
	if f.Err != nil {
		return decideError(f)
	}
	d := Decision{Adopt: noderef.ValidProviderID(f.Instance.ProviderID)}
	switch f.Instance.State {
	case provider.Creating:
		d.set(metav1.ConditionFalse, ReasonCreating, withCause("The instance is being created", f.Instance.Message))
	case provider.Stopped:
		d.Off = true
		d.set(metav1.ConditionFalse, ReasonStopped, withCause("The instance is off", f.Instance.Message))
	case provider.Deleting:
		d.Going = true
		d.set(metav1.ConditionFalse, ReasonGone, withCause("The instance is being deleted", f.Instance.Message))
	case provider.Failed:
		d.FailureReason = ReasonFailed
		d.FailureMessage = withCause("The provider reports that the instance cannot run; delete the Machine, or repair the instance",
			f.Instance.Message)
		d.set(metav1.ConditionFalse, ReasonFailed, d.FailureMessage)
	default:
		if !d.Adopt {
			d.set(metav1.ConditionFalse, ReasonProviderIDMissing, fmt.Sprintf(
				"driver %s reports an instance with the provider ID %q, which names none: the driver must set it", f.Driver, f.Instance.ProviderID))
			return d
		}
		if !f.Recorded { // the instance of a creation's result exists, and reads may still miss it
			d.set(metav1.ConditionFalse, ReasonCreating, "The instance was made, and has yet to be seen")
			return d
		}
		d.Provisioned = true
		d.set(metav1.ConditionTrue, contract.ReasonReady, "")
	}
	return d
}

func decideError(f Facts) (d Decision) {
	class := provider.ClassOf(f.Err)
	switch delayed := provider.IsDelayed(f.Err); {
	case f.Provisioned && (delayed || f.Failures < surelyGone) && (f.Recorded || class != provider.Invalid && class != provider.Terminal):
		d.Keep = true // one failed read proves nothing about an instance that ran; a creation that is rejected permanently is no read
		return d
	case delayed:
		d.set(metav1.ConditionFalse, ReasonWaitingForRate, "Waiting for a turn: the rate of calls to "+f.Driver+" is limited")
		return d
	case class == provider.NotFound && (f.Provisioned || f.Recorded && f.Failures >= neverThere):
		d.Gone = true
		d.FailureReason, d.FailureMessage = ReasonGone, "The instance no longer exists: delete the Machine"
		d.set(metav1.ConditionFalse, ReasonGone, d.FailureMessage)
		return d
	}
	reason, status := string(class), metav1.ConditionFalse
	if class == provider.Invalid {
		reason = ReasonInvalid
	}
	if f.Recorded {
		status = metav1.ConditionUnknown // the instance may still run
	}
	d.set(status, reason, fmt.Sprintf("%s: %s", f.Driver, f.Err)+adviceOn(class, f.Recorded))
	return d
}

// adviceOn describes what a person can do about a read that the Driver rejects.
func adviceOn(class provider.Class, recorded bool) string {
	if !recorded || class != provider.Invalid && class != provider.Terminal {
		return ""
	}
	return "; the instance may run all the same, and is looked for again: mend what the driver refuses, or delete the Machine"
}

func withCause(what, message string) string {
	if message == "" {
		return what
	}
	return what + ": " + message
}
