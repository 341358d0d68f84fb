package contract

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// How a MachineDeployment brings its Machines to a new template: the values of MachineDeploymentState.RolloutType. The API servers of
// Cluster API refuse the last two in their field; there, RolloutTypeAnnotation is the place for them.
const (
	// RolloutRolling replaces Machines step by step, within MaxSurge and MaxUnavailable.
	RolloutRolling = "RollingUpdate"
	// RolloutOnDelete replaces Machines that a user deletes.
	RolloutOnDelete = "OnDelete"
	// RolloutRecreate deletes all Machines before it creates new ones.
	RolloutRecreate = "Recreate"
	// RolloutInPlace changes the Machines that there are. Rule: Gardener's InPlaceUpdate.
	RolloutInPlace = "InPlaceUpdate"
)

// Who chooses the Machines of a rollout in place: the values of MachineDeploymentState.InPlaceOrchestration.
const (
	// OrchestrationAuto leaves it to the controller.
	OrchestrationAuto = "Auto"
	// OrchestrationManual leaves it to the user.
	OrchestrationManual = "Manual"
)

// Annotations of this module, for what a MachineDeployment asks for and the schema of its shape has no field for. A field wins.
const (
	// RolloutTypeAnnotation holds a RolloutType. It counts where the field is absent or says RolloutRolling, which is its default; a
	// field that says anything else wins.
	RolloutTypeAnnotation = "machinist.dev/rollout-type"
	// OrchestrationAnnotation holds an InPlaceOrchestration.
	OrchestrationAnnotation = "machinist.dev/in-place-orchestration"
	// RollbackToAnnotation holds the revision to go back to, 0 for the one before the current one.
	RollbackToAnnotation = "machinist.dev/rollback-to"
	// RolloutAfterAnnotation holds the RFC 3339 time since when older Machines are to be replaced.
	RolloutAfterAnnotation = "machinist.dev/rollout-after"
	// RevisionHistoryLimitAnnotation holds how many old sets are kept.
	RevisionHistoryLimitAnnotation = "machinist.dev/revision-history-limit"
	// DeletionOrderAnnotation and MachineNamingAnnotation hold a DeletionOrder and a MachineNaming, of MachineSets too.
	DeletionOrderAnnotation = "machinist.dev/deletion-order"
	MachineNamingAnnotation = "machinist.dev/machine-naming"
	// ProgressDeadlineAnnotation holds how long a rollout may stand still, as a duration such as "10m".
	ProgressDeadlineAnnotation = "machinist.dev/progress-deadline"
)

// MachineDeploymentState is everything that a decision about a MachineDeployment may need, whatever shape the object has.
// Strings, maps, slices and the selector are read-only views.
type MachineDeploymentState struct {
	Metadata
	ReplicatedState

	// RolloutPaused holds rollouts up: new sets are not made, and scaling goes on. The annotation that Metadata.Paused looks
	// for stops everything.
	RolloutPaused bool
	// RolloutType is RolloutRolling, RolloutOnDelete, RolloutRecreate or RolloutInPlace; empty counts as RolloutRolling. Other texts are
	// returned as they stand.
	RolloutType string
	// InPlaceOrchestration is, with RolloutInPlace, OrchestrationAuto or OrchestrationManual; empty counts as OrchestrationAuto.
	InPlaceOrchestration string
	// MaxSurge is how many replicas there may be beyond those that are wanted, a percentage of them rounded up; absent counts
	// as 1. MaxUnavailable is how many of those that are wanted may be unavailable, rounded down; absent counts as 0.
	MaxSurge, MaxUnavailable Opt[intstr.IntOrString]
	// RolloutAfter is when Machines that are older than it are to be replaced, zero for never.
	RolloutAfter time.Time
	// RemediationMaxInFlight is how many Machines may be remediated at once, rounded up; absent is no limit.
	RemediationMaxInFlight Opt[intstr.IntOrString]
	// RollbackTo is the revision whose template is to be that of the deployment again, 0 for the one before the current one; absent is
	// no rollback. A controller that has done it clears it.
	RollbackTo Opt[int64]
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
	MetadataUpdate
	ReplicatedUpdate

	RolloutPaused Change[bool]
	RolloutAfter  Change[time.Time]
	RollbackTo    Change[int64]

	Phase                                Change[string]
	UnavailableReplicas, UpdatedReplicas Change[int32]
}

// MachineDeploymentKind is a kind of MachineDeployment and how to read it.
type MachineDeploymentKind = KindOf[MachineDeploymentState, MachineDeploymentUpdate]
