package pass

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// Scope is one pass over one object of a kind with the state S and the update U. The Scope of each kind, such as machine.Scope, embeds it.
// A Scope belongs to one pass and is not safe for concurrent use.
type Scope[S, U any] = engine.Scope[S, U]

// Ports are the dependencies of every reconciler on its manager. The Ports of each kind embed them.
type Ports = engine.Ports

// Options are the settings of all reconcilers. The Options of each kind embed them:
//
//	options := machine.Options{Options: pass.Options{StatusDelay: -1}}
//	options.Name = "boxes"
type Options = engine.Options

// PortsFromManager returns the ports of a manager, without those of Clusters.
func PortsFromManager(mgr ctrl.Manager) Ports { return engine.PortsFromManager(mgr) }

// Metrics count the passes of all reconcilers that share them, by kind and result. Safe for concurrent use.
type Metrics = engine.Metrics

// MetricsOptions configure Metrics. The zero value is ready for use.
type MetricsOptions = engine.MetricsOptions

// NewMetrics returns Metrics, which are a prometheus.Collector: register them once in a process.
func NewMetrics(o MetricsOptions) *Metrics { return engine.NewMetrics(o) }

// DefaultStatusDelay is the default of the option StatusDelay of each kind.
const DefaultStatusDelay = engine.DefaultStatusDelay

// Clusters reads the Clusters that objects refer to, from the manager's cache. Its methods Of and Source are values for Ports.ClusterOf and
// Ports.ClusterEvents. Safe for concurrent use.
type Clusters = external.Clusters

// ClusterOptions configure Clusters. The zero value reads Cluster API's Clusters of any served version.
type ClusterOptions = external.ClusterOptions

// ClustersFromManager returns the Clusters of a manager:
//
//	clusters, err := pass.ClustersFromManager(mgr, pass.ClusterOptions{})
//	ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
func ClustersFromManager(mgr ctrl.Manager, o ClusterOptions) (*Clusters, error) {
	return external.ClustersFromManager(mgr, o)
}

// ClusterView is the state of a Cluster that Ports.ClusterOf returns, for your own kind of Cluster.
type ClusterView = external.ClusterView

// Presence is whether an object is known to exist.
type Presence = external.Presence

// Values of Presence: the object exists on the API server, the API server returned NotFound, and unknown.
const (
	Present = external.Present
	Absent  = external.Absent
	Unread  = external.Unread
)

// ClusterMapper returns the objects to reconcile when a Cluster changes. Ports.ClusterEvents takes it.
type ClusterMapper = external.ClusterMapper

// Reasons of conditions about the objects that an object refers to.
const (
	ReasonTemplateMissing      = engine.ReasonTemplateMissing
	ReasonTemplateUnread       = engine.ReasonTemplateUnread
	ReasonCRDNotFound          = external.ReasonCRDNotFound
	ReasonCacheNotSynced       = external.ReasonCacheNotSynced
	ReasonContractLabelMissing = external.ReasonContractLabelMissing
	ReasonContractViolation    = external.ReasonContractViolation
	ReasonVersionNotServed     = external.ReasonVersionNotServed
)

// Step is one named part of a reconciler. P is the Scope of its kind, such as *machine.Scope.
type Step[P any] = engine.Step[P]

// Steps are the steps of a pass in order, as returned by machine.Steps and similar functions. A method returns a changed copy and never
// fails: the copy holds the error, and New of the kind's package returns it. The error matches ErrNoStep for a name that is not in the
// list. A list is immutable and safe for concurrent use.
type Steps[P any] = engine.Steps[P]

// StepFunc does one thing for one object. It is called in every pass that the step's Life includes, from several goroutines for different
// objects, and also after it has done its work: a step with a one-time action must check whether that action already ran. An error is
// retried with back-off.
type StepFunc[P any] = engine.StepFunc[P]

// Result is how a pass continues after a step.
type Result = engine.Result

// Values of Life, which selects the objects that a step runs for: objects that are not being deleted, objects that are being deleted, and
// both.
const (
	InRunning  = engine.InRunning
	InDeletion = engine.InDeletion
	InBoth     = engine.InBoth
)

// ErrNoStep matches the error for a name that is not in the list of steps.
var ErrNoStep = engine.ErrNoStep
