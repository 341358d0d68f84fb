package machine

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// unread returns why the Nodes are not known.
func (s *Scope) unread() string { return cluster.Unread(s.cluster, s.NodesErr) }

// isTold reports whether an event wakes the Machine when its Nodes, which are unread, can be read.
func (s *Scope) isTold() bool { return s.NodesErr != nil || s.cluster != types.NamespacedName{} }

// nodesUnread sets the conditions of a Machine whose Node could not be looked up, unless they are already set. An event wakes the Machine
// when that changes, so the step does not retry.
func (s *Scope) nodesUnread(said bool) (Result, error) {
	d := unreadDecision{}
	if !said {
		d = decideUnread(s.unreadFacts())
	}
	s.Assert(d.Conditions...)
	if s.NodesErr != nil && !cluster.IsUnread(s.NodesErr) {
		return Result{}, s.NodesErr
	}
	return Result{RequeueAfter: d.Again}, nil
}

func (s *Scope) unreadFacts() unreadFacts {
	var down *cluster.NotConnectedError
	said, found := s.Condition(contract.ConditionNodeReady)
	f := unreadFacts{
		Down: errors.Is(s.NodesErr, cluster.ErrNotConnected), Failed: s.NodesErr != nil && !cluster.IsUnread(s.NodesErr), Message: s.unread(),
		Early:   !s.isTold() || errors.As(s.NodesErr, &down) && (down.Reason == cluster.ReasonConnecting || down.Reason == cluster.ReasonStopped),
		HasNode: s.State.Node.Name != "", Said: said.Reason, Found: found,
		Since: later(s.Workload.Since, s.Cluster.State.ControlPlaneInitializedAt), Now: s.Now, Grace: s.env.options.ConnectionGrace,
	}
	switch {
	case f.Failed:
		f.Message = engine.SeeLogs
	case f.Down:
		seen := s.Workload.LastSeen
		if errors.As(s.NodesErr, &down) {
			seen = down.LastSeen
		}
		f.Message = probed(seen) + "; " + f.Message
	}
	return f
}

// probed says in Cluster API's words when the last probe of a cluster succeeded, followed by the reason why it fails now.
func probed(seen time.Time) string {
	if seen.IsZero() {
		return "Remote connection not established yet"
	}
	return "Last successful probe at " + seen.UTC().Format(time.RFC3339)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// unreadFacts are the inputs of decideUnread.
type unreadFacts struct {
	// Down: the cluster is not connected. Failed: it is unknown why the Nodes are unread. Otherwise their first list is not complete.
	Down, Failed bool
	// Early: the first attempt to connect, or the first list of Nodes, since the start of this process is still running. The same is true of
	// a process that ends: its last passes know nothing about the Node.
	Early   bool
	Message string
	// HasNode: a Node was recorded.
	HasNode bool
	// Said is the reason of the stored NodeReady condition, if Found.
	Said  string
	Found bool
	// Since is when the cluster reached its present state; for Grace from then on, the readiness of Machines with a Node stays unchanged.
	Since, Now time.Time
	Grace      time.Duration
}

type unreadDecision struct {
	Conditions []metav1.Condition // none: the stored conditions stay
	Again      time.Duration      // when the conditions have to be set at the latest
}

// decideUnread: the restart of an API server or of this process must not change the readiness of every Machine twice, so the readiness of
// Machines with a Node stays unchanged for a while. Machines that wait for their Node report the reason at once.
func decideUnread(f unreadFacts) unreadDecision {
	if f.Early && f.Found {
		return unreadDecision{}
	}
	reason := contract.ReasonInspectionFailed
	switch {
	case f.Down:
		reason = contract.ReasonConnectionDown
	case f.Failed:
		reason = contract.ReasonInternalError
	}
	keeps := f.HasNode && f.Found && f.Said != contract.ReasonConnectionDown && f.Said != reason
	if left := f.Since.Add(f.Grace).Sub(f.Now); keeps && left > 0 {
		return unreadDecision{Again: left}
	}
	return unreadDecision{Conditions: bothOfNode(metav1.ConditionUnknown, reason, f.Message)}
}

// isUnreadYet reports whether an object is unread for a reason that a person cannot fix.
func isUnreadYet(e external.Object) bool {
	reason := e.Problem.Reason
	return e.Presence == external.Unread && (reason == "" || reason == external.ReasonCacheNotSynced)
}

// keepUnread restores the conditions of referenced objects that this pass could not read, for Options.ConnectionGrace from the first such
// pass on, and returns the rest of that duration.
func (s *Scope) keepUnread() time.Duration {
	kept, left := engine.SpareUnread(s.Stored, s.Asserted, func(c metav1.Condition) bool {
		return (c.Type == contract.ConditionBootstrapConfigReady && isUnreadYet(s.Bootstrap)) ||
			(c.Type == contract.ConditionInfrastructureReady && isUnreadYet(s.Infrastructure))
	}, &s.memory.unreadSince, s.Now, s.env.options.ConnectionGrace)
	s.Asserted = kept
	return left
}
