package machine

import "time"

// Limits are how long the stages of a deletion may take, from when the Machine records that the stage began; for NodeDeletion
// from the first attempt to delete the Node. Zero means no limit. When a limit is reached the deletion goes on without the stage.
type Limits struct {
	// PreDrainHooks and PreTerminateHooks end the wait for annotations of others. Cluster API has no such limits.
	PreDrainHooks, PreTerminateHooks time.Duration
	// Drain ends the drain, and Volumes the wait for volumes.
	Drain, Volumes time.Duration
	// NodeDeletion ends the attempts to delete the Node, and the wait for it to go.
	NodeDeletion time.Duration
}

// limits are those of this Machine.
func (s *Scope) limits() Limits {
	if decide := s.env.options.Policy.Limits; decide != nil {
		return decide(&s.State)
	}
	return Limits{
		Drain: s.State.NodeDrainTimeout.Or(0), Volumes: s.State.NodeVolumeDetachTimeout.Or(0),
		NodeDeletion: s.State.NodeDeletionTimeout.Or(DefaultNodeDeletionTimeout),
	}
}
