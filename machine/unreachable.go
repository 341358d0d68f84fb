package machine

import (
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// Unreachable is what to do about a stage of a deletion that needs the Nodes while they cannot be read.
type Unreachable uint8

// What can be done about a stage.
const (
	// UnreachableWait: the stage is waited for.
	UnreachableWait Unreachable = iota
	// UnreachableSkip: the deletion goes on without the stage.
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
	// Why is the reason for which the Nodes cannot be read, nil while nothing but their first list is missing.
	Why error
	// State is the Machine's. It is not to be changed.
	State *contract.MachineState
	// Cluster is the Machine's; zero where there are no Clusters.
	Cluster external.ClusterView
	// Infrastructure is what is known of the infrastructure object.
	Infrastructure external.Object
	// InstanceGone: the provider, or the API server about the infrastructure object, said that the machine no longer exists. In
	// StepDeleteNode it always is, because the Node goes last. PoweredOff: the provider said that it is off.
	InstanceGone, PoweredOff bool
	// Started is when the stage began, zero when that is not recorded, and Limit how long somebody said it may take, zero for
	// ever. A default of this module counts as nobody's.
	Started time.Time
	Limit   time.Duration
	// Now is the time of the pass.
	Now time.Time
}

// DefaultUnreachable is what Policy.Unreachable decides when it is nil, and the reason in words. A stage is waited for, unless the
// Cluster is gone or going, the machine is gone or off, so that nothing runs on it that could be drained, or a limit that
// somebody set is reached. A Node is deleted all the same when its machine is gone.
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

// leavesOut says whether the deletion goes on without a stage whose Nodes cannot be read, and why it does or what it waits for.
// limit is that of the stage, counted from started.
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

// unreadRetry is when a stage with a limit looks again for Nodes that cannot be read for a reason that no event ends.
const unreadRetry = 10 * time.Second

// waitUnread waits for Nodes that cannot be read. An event ends that, a limit, or else trying again.
func (s *Scope) waitUnread(reason, why string, started time.Time, limit time.Duration) (Result, error) {
	wait := s.Wait(reason, why)
	wait.RequeueAfter = s.until(0, started, limit)
	switch {
	case s.nodesBehind:
		wait.RequeueAfter = soonest(wait.RequeueAfter, external.AbsenceRetry) // and an event is on the way
	case s.NodesErr == nil && !s.isTold():
		wait.RequeueAfter = soonest(wait.RequeueAfter, time.Second) // the first list of the own cluster, at the start
	case s.NodesErr == nil || isUnread(s.NodesErr):
	case limit > 0:
		wait.RequeueAfter = soonest(wait.RequeueAfter, unreadRetry)
	default:
		return Result{Stop: true}, s.NodesErr
	}
	return wait, nil
}
