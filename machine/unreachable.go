package machine

import (
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// Unreachable is the decision about a stage of a deletion that needs the Nodes while they cannot be read.
type Unreachable uint8

// Values of Unreachable.
const (
	// UnreachableWait: the deletion waits for the stage.
	UnreachableWait Unreachable = iota
	// UnreachableSkip: the deletion continues without the stage.
	UnreachableSkip
)

// String returns the name of the constant.
func (u Unreachable) String() string {
	switch u {
	case UnreachableWait:
		return "UnreachableWait"
	case UnreachableSkip:
		return "UnreachableSkip"
	}
	return fmt.Sprintf("Unreachable(%d)", uint8(u))
}

// UnreachableFacts are what Unreachable depends on.
type UnreachableFacts struct {
	// Stage is the name of the step: StepDrain, StepVolumes or StepDeleteNode.
	Stage string
	// Why is the reason why the Nodes cannot be read, nil while only their first list is missing.
	Why error
	// State is the Machine's. It must not be changed.
	State *contract.MachineState
	// Cluster is the Machine's; zero without Ports.ClusterOf.
	Cluster external.ClusterView
	// Infrastructure is what is known of the infrastructure object.
	Infrastructure external.Object
	// InstanceGone: the provider, or the API server about the infrastructure object, reported that the instance no longer exists. In
	// StepDeleteNode it is always true, because the Node is deleted last. PoweredOff: the provider reported that it is off.
	InstanceGone, PoweredOff bool
	// Started is when the stage began, zero when that is not recorded, and Limit the limit from the Machine or the policy, zero for none.
	// A default of this module does not count as a limit here.
	Started time.Time
	Limit   time.Duration
	// Now is the time of the pass.
	Now time.Time
}

// DefaultUnreachable is the decision, with its reason, when Policy.Unreachable is nil. A deletion waits for the stage, unless the Cluster
// is gone or being deleted, the instance is gone or off, so that it runs no pods that could be drained, or a limit from the Machine or the
// policy is reached. A Node is still deleted when its instance is gone.
func DefaultUnreachable(f UnreachableFacts) (Unreachable, string) {
	deletesNode := f.Stage == StepDeleteNode
	switch {
	case f.Cluster.Presence == external.Absent:
		return UnreachableSkip, "the Cluster no longer exists"
	case f.Cluster.Presence == external.Present && !f.Cluster.State.Deleting.IsZero():
		return UnreachableSkip, "the Cluster is being deleted"
	case f.InstanceGone && !deletesNode:
		return UnreachableSkip, "the machine no longer exists"
	case f.PoweredOff && !deletesNode:
		return UnreachableSkip, "the machine is off"
	case limitReached(f.Started, f.Limit, f.Now):
		return UnreachableSkip, notWithin(f.Limit)
	}
	return UnreachableWait, ""
}

// leavesOut reports whether the deletion continues without a stage whose Nodes cannot be read, and why it continues or what it waits for.
// limit is the limit of the stage, counted from started.
func (s *Scope) leavesOut(stage string, started time.Time, limit time.Duration) (bool, string) {
	facts := UnreachableFacts{
		Stage: stage, Why: s.NodesErr, State: &s.State, Cluster: s.Cluster, Infrastructure: s.Infrastructure,
		InstanceGone: s.InstanceGone || s.infrastructureGone, PoweredOff: s.PoweredOff,
		Started: started, Limit: limit, Now: s.Now,
	}
	if s.ClusterErr != nil {
		facts.Cluster = external.ClusterView{Presence: external.Unread}
	}
	decide := s.env.options.Policy.Unreachable
	if decide == nil {
		decide = DefaultUnreachable
	}
	what, why := decide(facts)
	if what != UnreachableSkip {
		return false, s.unread()
	}
	return true, fmt.Sprintf("%s, while its Nodes could not be read: %s", why, s.unread())
}

// unreadRetry is the retry interval of a stage with a limit while the Nodes cannot be read for a reason that no event ends.
const unreadRetry = 10 * time.Second

// waitUnread waits for Nodes that cannot be read. An event, a limit or a retry ends the wait.
func (s *Scope) waitUnread(reason, why string, started time.Time, limit time.Duration) (Result, error) {
	wait := s.Wait(reason, why)
	wait.RequeueAfter = s.until(0, started, limit)
	switch {
	case s.nodesBehind:
		wait.RequeueAfter = soonest(wait.RequeueAfter, external.AbsenceRetry) // and an event will follow
	case s.NodesErr == nil && !s.isTold():
		wait.RequeueAfter = soonest(wait.RequeueAfter, time.Second) // the first list of the Nodes in the management cluster
	case s.NodesErr == nil || isUnread(s.NodesErr):
	case limit > 0:
		wait.RequeueAfter = soonest(wait.RequeueAfter, unreadRetry)
	default:
		return Result{Stop: true}, s.NodesErr
	}
	return wait, nil
}
