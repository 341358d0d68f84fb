package machine

import (
	"fmt"

	"github.com/machinist-dev/machinist/contract"
)

// NodeCare is what to do about the Node of a Machine that is being deleted.
type NodeCare uint8

// What can be done about a Node.
const (
	// CareUnknown: not enough is known to say. The deletion waits before the drain.
	CareUnknown NodeCare = iota
	// CareDrainAndDelete: the Node is drained, its volumes are waited for, and it is deleted at the end.
	CareDrainAndDelete
	// CareNone: the Node is left as it is, because it goes with its cluster or because there is none. Hooks, infrastructure and
	// bootstrap data are seen to all the same.
	CareNone
)

// String returns the name of the constant.
func (c NodeCare) String() string {
	switch c {
	case CareUnknown:
		return "CareUnknown"
	case CareDrainAndDelete:
		return "CareDrainAndDelete"
	case CareNone:
		return "CareNone"
	}
	return fmt.Sprintf("NodeCare(%d)", uint8(c))
}

// NodeCareFacts are what NodeCare depends on.
type NodeCareFacts struct {
	// Cluster is the Machine's; zero where there are no Clusters.
	Cluster ClusterView
	// State is the Machine's. It is not to be changed.
	State *contract.MachineState
	// Infrastructure is what is known of the infrastructure object.
	Infrastructure External
	// HasNode: a Node was matched, now or before.
	HasNode bool
}
