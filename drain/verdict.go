package drain

import "slices"

// Action is what happens to a Pod of a draining Node.
type Action string

// Values of Action. Undecided means that no rule decided; [Planner.Plan] turns it into Deny.
const (
	Undecided Action = ""
	// Evict evicts the Pod, which respects budgets.
	Evict Action = "Evict"
	// Delete deletes the Pod with its grace period, which ignores budgets.
	Delete Action = "Delete"
	// Wait requests nothing for now; the Pod blocks the drain until it is gone.
	Wait Action = "Wait"
	// Ignore leaves the Pod on the Node; it does not block the drain.
	Ignore Action = "Ignore"
	// Deny requests nothing; the Pod blocks the drain until something changes. If only budgets deny a Pod, drain/runner still requests its
	// eviction from time to time.
	Deny Action = "Deny"
)

// leaves reports whether the Pod is evicted or deleted.
func (a Action) leaves() bool { return a == Evict || a == Delete }

// Reason is a CamelCase word for why a Pod has its action. Rules may use their own reasons.
type Reason string

// Reasons of the default rules and of the planner.
const (
	ReasonEvictable    Reason = "Evictable"    // nothing blocks the Pod
	ReasonFinished     Reason = "Finished"     // Succeeded or Failed: evicted, regardless of budgets and orders
	ReasonTerminating  Reason = "Terminating"  // has a deletionTimestamp, is not gone yet
	ReasonMirrorPod    Reason = "MirrorPod"    // mirror Pod of a static Pod; only the kubelet can end it
	ReasonDaemonSetPod Reason = "DaemonSetPod" // would be created again immediately on the cordoned Node
	ReasonOtherNode    Reason = "OtherNode"    // bound to a Node other than the one that was passed
	ReasonRuleFailed   Reason = "RuleFailed"   // a rule returned an error
	ReasonNoVerdict    Reason = "NoVerdict"    // no rule decided
	ReasonLowerOrder   Reason = "LowerOrder"   // pods with a lower order are still there
	ReasonUnexplained  Reason = "Unexplained"  // a rule decided without a reason

	ReasonSkipped            Reason = "Skipped"            // a rule or a label excludes the Pod from the drain
	ReasonWaitCompleted      Reason = "WaitCompleted"      // the drain waits for its completion
	ReasonWaitCompletedLater Reason = "WaitCompletedLater" // the same, and pods with a lower order are still there
	ReasonCompleted          Reason = "Completed"          // the drain waited for its completion, and it has completed
	ReasonDrainRuleUnclear   Reason = "DrainRuleUnclear"   // a MachineDrainRule that is invalid or unread may select the Pod

	ReasonBudgetExhausted   Reason = "BudgetExhausted"   // the budget allows no further eviction now
	ReasonBudgetStale       Reason = "BudgetStale"       // the status of the budget is older than its spec
	ReasonBudgetNeverAllows Reason = "BudgetNeverAllows" // by its spec and Pods, the budget cannot allow any eviction
	ReasonMultipleBudgets   Reason = "MultipleBudgets"   // more than one budget selects the Pod (k/k #75957)
)

// Reasons that package drain/runner sets through [Facts.Held].
const (
	ReasonEvictionRequested    Reason = "EvictionRequested"    // queued or on its way to the API server
	ReasonEvictionAccepted     Reason = "EvictionAccepted"     // accepted; the Pod was not seen terminating yet
	ReasonGone                 Reason = "Gone"                 // the Pod or its Namespace does not exist any more
	ReasonForbidden            Reason = "Forbidden"            // RBAC or an admission plugin of the API server refused the eviction
	ReasonAdmissionDenied      Reason = "AdmissionDenied"      // a webhook or an admission policy denied it, and may act on it
	ReasonNamespaceTerminating Reason = "NamespaceTerminating" // the Namespace controller will delete the Pod
	ReasonThrottled            Reason = "Throttled"            // the API server is overloaded
	ReasonServerError          Reason = "ServerError"          // a webhook or the API server failed
	ReasonUnknownOutcome       Reason = "UnknownOutcome"       // no usable response; requested again, which is safe because of the UID
	ReasonUnauthorized         Reason = "Unauthorized"         // the credentials of the client were rejected
	ReasonInvalid              Reason = "Invalid"              // the request is invalid; a retry does not help
	ReasonEndpointMissing      Reason = "EndpointMissing"      // the API server has no pods/eviction
	ReasonConflict             Reason = "Conflict"             // the Pod changed during its eviction
)

// Reasons that only [Plan.Permanent] and [Plan.Warnings] use.
const (
	ReasonFinalizer      Reason = "Finalizer"      // finalizers keep the object after the containers have ended
	ReasonNeverCompletes Reason = "NeverCompletes" // waits for the completion of a Pod that always restarts
	ReasonLocalData      Reason = "LocalData"      // data in emptyDir volumes is lost
	ReasonUnmanaged      Reason = "Unmanaged"      // no controller creates the Pod again
	ReasonRuleWarning    Reason = "RuleWarning"    // a rule warns
)

// Verdict is the decision about one Pod.
type Verdict struct {
	Action Action
	// Order is the order of the drain: Pods of a higher order wait until those of a lower order have left their Node.
	Order int32
	// Reason is for programs.
	Reason Reason
	// Message is for people; it does not name the Pod.
	Message string
	// Warnings are for people and do not change the decision; see [Plan.Warnings]. Rules must append to a clipped slice and not change it in
	// place.
	Warnings []string
	// GracePeriodSeconds replaces the Pod's own grace period when it is not nil. It applies to Evict and Delete.
	GracePeriodSeconds *int64
}

// decide returns a verdict with the order of v, without its grace period, and with its warnings if the Pod goes.
func (v Verdict) decide(a Action, r Reason, message string) Verdict {
	if a == Ignore || a == Deny {
		v.Warnings = nil
	}
	return Verdict{Action: a, Order: v.Order, Reason: r, Message: message, Warnings: v.Warnings}
}

// decideIf returns a decision if no earlier rule decided and the condition of a rule holds; otherwise it returns v.
func (v Verdict) decideIf(holds bool, a Action, r Reason, message string) Verdict {
	if v.Action != Undecided || !holds {
		return v
	}
	return v.decide(a, r, message)
}

// warn adds a warning. It does not change the array of earlier warnings, because verdicts may be retained.
func (v Verdict) warn(message string) Verdict {
	v.Warnings = append(slices.Clip(v.Warnings), message)
	return v
}
