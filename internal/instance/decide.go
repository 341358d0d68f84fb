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
	// ReasonNoInput: what the Driver is to be asked for could not be read.
	ReasonNoInput = "NoDriverInput"
	// ReasonWaitingForData: an instance waits for its first-boot data.
	ReasonWaitingForData = "WaitingForBootstrapData"
	// ReasonProviderIDMissing: the instance runs and has no provider ID, or one that names no instance.
	ReasonProviderIDMissing = "ProviderIDMissing"
	// ReasonInvalid: the Driver refuses the specification. The word is Cluster API's.
	ReasonInvalid = "InvalidConfiguration"
)

// Facts are the inputs of Decide.
type Facts struct {
	// Driver is the name of the Driver, and Instance its answer when Err is nil.
	Driver   string
	Instance provider.Instance
	Err      error
	// Failures is how many times in a row there was an error; of one of the class NotFound, how often since the last answer there was such an
	// error. Recorded: the Machine has a provider ID, so the answer is that of a look. Provisioned: a look has seen it run, or has
	// found out that it IsLost.
	Failures              int
	Recorded, Provisioned bool
}

// IsLost reports whether a failure reason is one that a look at an instance has found out.
func IsLost(failureReason string) bool {
	return failureReason == ReasonGone || failureReason == ReasonFailed
}

// Decision is what the answer of a Driver means.
type Decision struct {
	// Status, Reason and Message are those of the condition about the instance. They are empty with Keep: the stored condition stays.
	Status          metav1.ConditionStatus
	Reason, Message string
	Keep            bool
	// Adopt: the provider ID and the addresses are recorded. Provisioned: the instance runs. Off and Gone are for a deletion: the instance
	// is off, and it no longer exists. Going: it is being deleted, as the Driver reports, or because the Keeper had a deletion accepted.
	Adopt, Provisioned, Off, Gone, Going bool
	// FailureReason and FailureMessage are a failure that does not go away by itself; empty without.
	FailureReason, FailureMessage string
}

// Condition returns the condition with a type, without times.
func (d *Decision) Condition(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: d.Status, Reason: d.Reason, Message: d.Message}
}

func (d *Decision) say(status metav1.ConditionStatus, reason, message string) {
	d.Status, d.Reason, d.Message = status, reason, message
}

// surelyGone is how often in a row the provider must miss an instance that was seen to run, and neverThere the same for one that was made
// and never seen to run: a read of a cloud may be late, of a new instance by minutes. The pauses between looks grow to a minute.
const (
	surelyGone = 3
	neverThere = 10
)

// Decide says what the answer of a Driver means. An instance is lost only after several looks, and after more of them if none has seen it
// run: a new one may be seen late, also one that runs by the answer to its creation. An instance that is lost is not made again: the
// Machine fails, and what owns it decides.
func Decide(f Facts) Decision {
	if f.Err != nil {
		return decideError(f)
	}
	d := Decision{Adopt: noderef.ValidProviderID(f.Instance.ProviderID)}
	switch f.Instance.State {
	case provider.Creating:
		d.say(metav1.ConditionFalse, ReasonCreating, withCause("The instance is being created", f.Instance.Message))
	case provider.Stopped:
		d.Off = true
		d.say(metav1.ConditionFalse, ReasonStopped, withCause("The instance is off", f.Instance.Message))
	case provider.Deleting:
		d.Going = true
		d.say(metav1.ConditionFalse, ReasonGone, withCause("The instance is being deleted", f.Instance.Message))
	case provider.Failed:
		d.FailureReason = ReasonFailed
		d.FailureMessage = withCause("The provider reports that the instance cannot run; delete the Machine, or repair the instance",
			f.Instance.Message)
		d.say(metav1.ConditionFalse, ReasonFailed, d.FailureMessage)
	default:
		if !d.Adopt {
			d.say(metav1.ConditionFalse, ReasonProviderIDMissing, fmt.Sprintf(
				"driver %s reports an instance with the provider ID %q, which names none: the driver must set it", f.Driver, f.Instance.ProviderID))
			return d
		}
		if !f.Recorded { // what answers a creation is surely there, and looks may yet miss it
			d.say(metav1.ConditionFalse, ReasonCreating, "The instance was made, and has yet to be seen")
			return d
		}
		d.Provisioned = true
		d.say(metav1.ConditionTrue, contract.ReasonReady, "")
	}
	return d
}

func decideError(f Facts) (d Decision) {
	class := provider.ClassOf(f.Err)
	_, delayed := provider.IsDelayed(f.Err)
	switch {
	case f.Provisioned && (delayed || f.Failures < surelyGone) && (f.Recorded || class != provider.Invalid && class != provider.Terminal):
		d.Keep = true // one look that fails says nothing about an instance that ran; a creation that is refused for good is none
		return d
	case delayed:
		d.say(metav1.ConditionFalse, ReasonWaitingForRate, "Waiting for a turn: the rate of calls to "+f.Driver+" is limited")
		return d
	case class == provider.NotFound && (f.Provisioned || f.Recorded && f.Failures >= neverThere):
		d.Gone = true
		d.FailureReason, d.FailureMessage = ReasonGone, "The instance no longer exists: delete the Machine"
		d.say(metav1.ConditionFalse, ReasonGone, d.FailureMessage)
		return d
	}
	reason, status := string(class), metav1.ConditionFalse
	if class == provider.Invalid {
		reason = ReasonInvalid
	}
	if f.Recorded {
		status = metav1.ConditionUnknown // the instance may well run
	}
	d.say(status, reason, fmt.Sprintf("%s: %s", f.Driver, f.Err)+adviceOn(class, f.Recorded))
	return d
}

// adviceOn is what a person can do about a look that the Driver refuses.
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
