package drain

import (
	"fmt"
	"slices"
)

// Action is what happens to a pod of a draining Node.
type Action uint8

// The zero value means that no rule had an opinion; [Planner.Plan] turns it into Deny.
const (
	Undecided Action = iota
	// Evict asks the API server to evict the pod, which honours budgets.
	Evict
	// Delete deletes the pod with its grace period, which ignores budgets.
	Delete
	// Wait leaves the pod alone for now; it blocks the drain until it is gone.
	Wait
	// Ignore leaves the pod alone for good; it does not block the drain.
	Ignore
	// Deny leaves the pod alone and blocks the drain until something changes. Where only budgets deny it, drain/runner
	// asks for the pod now and then all the same.
	Deny
)

// String returns the action's name, for example "Evict".
func (a Action) String() string {
	return nameOf(a, "Action", "Undecided", "Evict", "Delete", "Wait", "Ignore", "Deny")
}

// nameOf returns the name of a constant, counted from 0.
func nameOf[T ~uint8](value T, kind string, names ...string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(value))
}

// Reason says in one CamelCase word why a pod has its action. Rules may use reasons of their own.
type Reason string

// Reasons of the default rules and of the planner.
const (
	ReasonEvictable    Reason = "Evictable"    // nothing holds the pod
	ReasonFinished     Reason = "Finished"     // Succeeded or Failed: evicted, outside budgets and orders
	ReasonTerminating  Reason = "Terminating"  // has a deletionTimestamp, is not gone yet
	ReasonMirrorPod    Reason = "MirrorPod"    // a static pod's image; only the kubelet can end it
	ReasonDaemonSetPod Reason = "DaemonSetPod" // would come back at once on the cordoned Node
	ReasonOtherNode    Reason = "OtherNode"    // bound to another Node than the one it was listed under
	ReasonRuleFailed   Reason = "RuleFailed"   // a rule returned an error
	ReasonNoVerdict    Reason = "NoVerdict"    // no rule had an opinion
	ReasonLowerOrder   Reason = "LowerOrder"   // pods with a lower order are still there
	ReasonUnexplained  Reason = "Unexplained"  // a rule decided without giving a reason

	ReasonSkipped            Reason = "Skipped"            // a rule or a label leaves the pod alone
	ReasonWaitCompleted      Reason = "WaitCompleted"      // left alone until it has completed
	ReasonWaitCompletedLater Reason = "WaitCompletedLater" // the same, and pods with a lower order are still there
	ReasonCompleted          Reason = "Completed"          // was to be left alone until completed, and has
	ReasonDrainRuleUnclear   Reason = "DrainRuleUnclear"   // an invalid MachineDrainRule, or one whose facts are unread, may mean the pod

	ReasonBudgetExhausted   Reason = "BudgetExhausted"   // the budget allows no further eviction now
	ReasonBudgetStale       Reason = "BudgetStale"       // the budget's status is older than its spec
	ReasonBudgetNeverAllows Reason = "BudgetNeverAllows" // by its spec and pods, the budget cannot allow any eviction
	ReasonMultipleBudgets   Reason = "MultipleBudgets"   // more than one budget selects the pod (k/k #75957)
)

// Reasons that whoever carries out a plan gives to a pod through [Facts.Held].
const (
	ReasonEvictionRequested    Reason = "EvictionRequested"    // queued or on its way to the API server
	ReasonEvictionAccepted     Reason = "EvictionAccepted"     // accepted; the pod was not seen terminating yet
	ReasonForbidden            Reason = "Forbidden"            // RBAC or an admission plugin of the server refused the eviction
	ReasonAdmissionDenied      Reason = "AdmissionDenied"      // a webhook or an admission policy denied it, and may act on it
	ReasonNamespaceTerminating Reason = "NamespaceTerminating" // the namespace controller will delete the pod
	ReasonThrottled            Reason = "Throttled"            // the API server asked everybody to slow down
	ReasonServerError          Reason = "ServerError"          // a webhook or the server failed
	ReasonUnknownOutcome       Reason = "UnknownOutcome"       // no usable answer; asked again, safe by UID precondition
	ReasonUnauthorized         Reason = "Unauthorized"         // the client's credentials were refused
	ReasonInvalid              Reason = "Invalid"              // the request is wrong; asking again cannot help
	ReasonEndpointMissing      Reason = "EndpointMissing"      // the server has no pods/eviction
	ReasonConflict             Reason = "Conflict"             // the pod changed meanwhile
	ReasonUnsupported          Reason = "Unsupported"          // the runner cannot carry out this action
)

// Reasons that only [Plan.Permanent] and [Plan.Warnings] give.
const (
	ReasonFinalizer      Reason = "Finalizer"      // finalizers keep the object when the containers have ended
	ReasonNeverCompletes Reason = "NeverCompletes" // waits for the completion of a pod that restarts for ever
	ReasonLocalData      Reason = "LocalData"      // data in emptyDir volumes is lost
	ReasonUnmanaged      Reason = "Unmanaged"      // no controller creates the pod again
	ReasonRuleWarning    Reason = "RuleWarning"    // a rule warns
)

// Verdict is the decision about one pod.
type Verdict struct {
	Action Action
	// Order says who goes first: pods of a higher order wait until those of a lower one are gone from their Node.
	Order int32
	// Reason is for programs.
	Reason Reason
	// Message is for people; it does not name the pod.
	Message string
	// Warnings are what rules want people to know although it changes nothing; see [Plan.Warnings]. Rules append to a
	// clipped slice and never change it in place.
	Warnings []string
	// GracePeriodSeconds replaces the pod's own grace period when it is not nil. Only Evict and Delete look at it.
	GracePeriodSeconds *int64
}

// decide returns a verdict with the order of v, and without its warnings and its grace period.
func (v Verdict) decide(a Action, r Reason, message string) Verdict {
	return Verdict{Action: a, Order: v.Order, Reason: r, Message: message}
}

// warn adds a warning. It does not change the array of earlier warnings: verdicts are values and may be kept.
func (v Verdict) warn(message string) Verdict {
	v.Warnings = append(slices.Clip(v.Warnings), message)
	return v
}
