package healthcheck

import (
	"time"
)

// Class is what a check thinks of a Machine.
type Class string

// Values of Class.
const (
	// Pending: it is not judged, or not yet. It is the zero value.
	Pending Class = ""
	// Healthy: it has a Node that has reported, and nothing is wrong with it.
	Healthy Class = "Healthy"
	// Unhealthy: something has been wrong with it for as long as the check allows.
	Unhealthy Class = "Unhealthy"
)

// Reasons of the condition HealthCheckSucceeded of Machines. They are Cluster API's.
const (
	ReasonSucceeded              = "HealthCheckSucceeded"   // nothing is wrong with the Machine
	ReasonUnhealthyNode          = "UnhealthyNode"          // a condition of the Node has been unhealthy for the time that the check allows
	ReasonUnhealthyMachine       = "UnhealthyMachine"       // a condition of the Machine has been, or the Machine has failed
	ReasonNodeStartupTimeout     = "NodeStartupTimeout"     // no Node has joined in the time that the check allows
	ReasonNodeDeleted            = "NodeDeleted"            // the Node of the Machine was deleted
	ReasonHasRemediateAnnotation = "HasRemediateAnnotation" // a user requests the remediation with an annotation
)

// Reasons why a Machine is not judged, or not yet.
const (
	ReasonSkipped                    = "Skipped"                    // an annotation excludes the Machine from the check
	ReasonControlPlaneNotInitialized = "ControlPlaneNotInitialized" // the control plane of the Cluster is not initialized
	ReasonInfrastructureNotReady     = "InfrastructureNotReady"     // the infrastructure of the Cluster is not ready
	ReasonNodeUnread                 = "NodeUnread"                 // the Node could not be read
	ReasonDeleting                   = "Deleting"                   // the Machine is being deleted
	// ReasonStarting: it has no Node yet, or one that has not reported, and its limit is not reached.
	ReasonStarting = "Starting"
	// ReasonSuspect: something is wrong, but not for long enough.
	ReasonSuspect = "Suspect"
	// ReasonTimeUnknown: a condition is unhealthy and does not say since when.
	ReasonTimeUnknown = "TimeUnknown"
)

// Verdict is the result of Evaluate: what is thought of a Machine, and why.
type Verdict struct {
	Class Class
	// Skipped: the Machine does not count at all, as with SkipAnnotation.
	Skipped bool
	// Reason and Message are those of the condition HealthCheckSucceeded for a Machine that is Healthy or Unhealthy. Otherwise Reason says
	// why it is neither. They change only when something else happens.
	Reason, Message string
	// Since is when what is wrong began, or begins to be counted. Zero when that is unknown, or nothing is wrong.
	Since time.Time
	// Limit is how long that may last, the longest of several; zero when nothing is wrong, or no time is allowed for it. A Node that is gone
	// has as long to register again as a new one.
	Limit time.Duration
	// Suspect: something is wrong that is not yet, or never will be, a reason to remediate.
	Suspect bool
	// Unjudged: nothing can be known of any Machine of the cluster now. The Machine counts as it was judged last.
	Unjudged bool
	// Unstarted: the Machine has never had a Node.
	Unstarted bool
	// NextCheck is after which time the verdict changes without an event; zero when it does not.
	NextCheck time.Duration
}

// isBad reports whether something is wrong with the Machine, for long enough or not.
func (v *Verdict) isBad() bool { return v.Class == Unhealthy || v.Suspect }
