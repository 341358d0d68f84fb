package machine

import (
	"fmt"
	"time"
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
	// Cluster is the Machine's; zero where there are no Clusters.
	Cluster ClusterView
	// Infrastructure is what is known of the infrastructure object.
	Infrastructure External
	// InstanceGone: the provider, or the API server about the infrastructure object, said that the machine no longer exists.
	// PoweredOff: the provider said that it is off.
	InstanceGone, PoweredOff bool
	// Started is when the stage began, zero when that is not recorded, and Limit how long it may take, zero for ever.
	Started time.Time
	Limit   time.Duration
	// Now is the time of the pass.
	Now time.Time
}

// leavesOut says whether the deletion goes on without a stage whose Nodes cannot be read, and why it does or what it waits for.
// limit is that of the stage, counted from started.
func (s *Scope) leavesOut(stage string, started time.Time, limit time.Duration) (bool, string) {
	_, _, _ = stage, started, limit
	return false, s.unread()
}
