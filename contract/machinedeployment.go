package contract

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachineDeploymentState is everything that a decision about a MachineDeployment may need, whatever shape the object has.
// Strings, maps, slices and the selector are read-only views.
type MachineDeploymentState struct {
	Metadata
	ReplicatedState

	// RolloutPaused holds rollouts up: new sets are not made, and scaling goes on. The annotation that Metadata.Paused looks
	// for stops everything.
	RolloutPaused bool
	// RolloutType is RollingUpdate or OnDelete; empty counts as RollingUpdate.
	RolloutType string
	// MaxSurge is how many replicas there may be beyond those that are wanted, a percentage of them rounded up; absent counts
	// as 1. MaxUnavailable is how many of those that are wanted may be unavailable, rounded down; absent counts as 0.
	MaxSurge, MaxUnavailable Opt[intstr.IntOrString]
	// RolloutAfter is when Machines that are older than it are to be replaced, zero for never.
	RolloutAfter time.Time
	// RemediationMaxInFlight is how many Machines may be remediated at once, rounded up; absent is no limit.
	RemediationMaxInFlight Opt[intstr.IntOrString]
	// RevisionHistoryLimit is how many old sets are kept and ProgressDeadline how long a rollout may stand still. Cluster API
	// has them in v1beta1 only, and no longer acts on them.
	RevisionHistoryLimit Opt[int32]
	ProgressDeadline     Opt[time.Duration]

	Phase string
	// UnavailableReplicas counts by Nodes, like NodeAvailableReplicas, and UpdatedReplicas by the template. Cluster API has
	// deprecated both.
	UnavailableReplicas, UpdatedReplicas Opt[int32]
}

// MachineDeploymentUpdate is what a pass wants to change. The zero update changes nothing. Where MachineDeploymentState has
// no Opt, zero and absent are the same to every reader, and setting the zero value removes the field.
type MachineDeploymentUpdate struct {
	MetadataUpdate `write:"main,urgent"`
	ReplicatedUpdate

	Phase                                Change[string] `write:"status"`
	UnavailableReplicas, UpdatedReplicas Change[int32]  `write:"status"`
}

// MachineDeploymentAdapter translates between a MachineDeployment of some shape and neutral values.
type MachineDeploymentAdapter = Adapter[MachineDeploymentState, MachineDeploymentUpdate]

// MachineDeploymentKind is a kind of MachineDeployment and how to read it.
type MachineDeploymentKind = KindOf[MachineDeploymentState, MachineDeploymentUpdate]
