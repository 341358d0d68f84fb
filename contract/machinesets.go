package contract

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachineSetState is everything that a decision about a MachineSet may need, independent of the shape of the object. Strings, maps, slices
// and the selector are read-only views.
type MachineSetState struct {
	Metadata
	ReplicatedState

	// FullyLabeledReplicas counts the Machines that have all labels of the template. Cluster API has deprecated it.
	FullyLabeledReplicas Opt[int32]
}

// MachineSetUpdate holds the changes of a pass. The zero update changes nothing. For members that are not an Opt in MachineSetState, zero
// and absent are equivalent, and setting the zero value removes the field.
type MachineSetUpdate struct {
	MetadataUpdate
	ReplicatedUpdate

	FullyLabeledReplicas Change[int32]
}

// MachineSetKind is a kind of MachineSet with its Adapter.
type MachineSetKind = KindOf[MachineSetState, MachineSetUpdate]

// MachineSetLayout locates the fields of a MachineSet of one shape. Its members correspond to those of MachineSetState and
// MachineSetUpdate. As in a MachineLayout, a zero Field has no place.
type MachineSetLayout struct {
	ReplicatedLayout

	FullyLabeledReplicas Field[int32] `by:"controller" absent:"unknown"`
}

var machineSetV1Beta2 = MachineSetLayout{
	ReplicatedLayout:     replicatedV1Beta2(),
	FullyLabeledReplicas: At[int32]("status", "deprecated", "v1beta1", "fullyLabeledReplicas"),
}

var machineSetV1Beta1 = MachineSetLayout{
	ReplicatedLayout:     replicatedV1Beta1(),
	FullyLabeledReplicas: At[int32]("status", "fullyLabeledReplicas"),
}

func (l *MachineSetLayout) read(obj map[string]any, into *MachineSetState) error {
	x := &exchange{obj: obj}
	l.walk(x, into, &MachineSetUpdate{})
	return x.err
}

func (l *MachineSetLayout) write(obj map[string]any, u MachineSetUpdate) error {
	x := &exchange{obj: obj, writes: true}
	l.walk(x, &MachineSetState{}, &u)
	return x.err
}

func (l *MachineSetLayout) walk(x *exchange, s *MachineSetState, u *MachineSetUpdate) {
	x.metadata(&s.Metadata, &u.MetadataUpdate)
	l.ReplicatedLayout.walk(x, &s.ReplicatedState, &u.ReplicatedUpdate)
	distinct(x, l.FullyLabeledReplicas, &s.FullyLabeledReplicas, u.FullyLabeledReplicas)
}

// Values of MachineDeploymentState.RolloutType: how a MachineDeployment rolls out a new template. The API servers of Cluster API reject the
// last two in their field; use RolloutTypeAnnotation there.
const (
	// RolloutRolling replaces Machines step by step, within MaxSurge and MaxUnavailable.
	RolloutRolling = "RollingUpdate"
	// RolloutOnDelete replaces Machines that a user deletes.
	RolloutOnDelete = "OnDelete"
	// RolloutRecreate deletes all Machines before it creates new ones.
	RolloutRecreate = "Recreate"
	// RolloutInPlace updates the existing Machines. Rule: Gardener's InPlaceUpdate.
	RolloutInPlace = "InPlaceUpdate"
)

// Values of MachineDeploymentState.InPlaceOrchestration: who selects the Machines of an in-place rollout.
const (
	// OrchestrationAuto: the controller selects the Machines.
	OrchestrationAuto = "Auto"
	// OrchestrationManual: the user selects the Machines.
	OrchestrationManual = "Manual"
)

// Annotations of this module, for settings of a MachineDeployment without a field in its schema. A field takes precedence.
const (
	// RolloutTypeAnnotation holds a RolloutType. It applies when the field is absent or RolloutRolling, which is the default of the field.
	RolloutTypeAnnotation = "machinist.dev/rollout-type"
	// OrchestrationAnnotation holds an InPlaceOrchestration.
	OrchestrationAnnotation = "machinist.dev/in-place-orchestration"
	// RollbackToAnnotation holds the revision to roll back to; 0 is the previous one.
	RollbackToAnnotation = "machinist.dev/rollback-to"
)

// MachineDeploymentState is everything that a decision about a MachineDeployment may need, independent of the shape of the object. Strings,
// maps, slices and the selector are read-only views.
type MachineDeploymentState struct {
	Metadata
	ReplicatedState

	// RolloutPaused pauses rollouts: no new sets are created, but scaling continues. The annotation of Metadata.Paused pauses everything.
	RolloutPaused bool
	// RolloutType is RolloutRolling, RolloutOnDelete, RolloutRecreate or RolloutInPlace; empty means RolloutRolling. Other texts are returned
	// unchanged.
	RolloutType string
	// InPlaceOrchestration applies to RolloutInPlace. It is OrchestrationAuto or OrchestrationManual; empty means OrchestrationAuto.
	InPlaceOrchestration string
	// MaxSurge is how many replicas may exist beyond the desired number; a percentage is rounded up, and absent means 1. MaxUnavailable is how
	// many of the desired replicas may be unavailable; a percentage is rounded down, and absent means 0.
	MaxSurge, MaxUnavailable Opt[intstr.IntOrString]
	// RolloutAfter is a time: once it has passed, Machines created before it are replaced. Zero means never.
	RolloutAfter time.Time
	// RemediationMaxInFlight is how many Machines may be remediated at once, rounded up; absent means no limit.
	RemediationMaxInFlight Opt[intstr.IntOrString]
	// RollbackTo is the revision whose template the deployment rolls back to; 0 is the previous one, and absent means no rollback. The
	// controller clears it after the rollback.
	RollbackTo Opt[int64]
	// RevisionHistoryLimit is how many old sets are retained; absent means one, or all with Kinds.AllRevisions. ProgressDeadline is how long a
	// rollout may make no progress; absent means no limit. Cluster API has both in v1beta1 only, and no longer acts on them.
	RevisionHistoryLimit Opt[int32]
	ProgressDeadline     Opt[time.Duration]

	Phase string
	// UnavailableReplicas counts by Nodes, like NodeAvailableReplicas. UpdatedReplicas counts the Machines with the current template. Cluster
	// API has deprecated both.
	UnavailableReplicas, UpdatedReplicas Opt[int32]
}

// MachineDeploymentUpdate holds the changes of a pass. The zero update changes nothing. For members that are not an Opt in
// MachineDeploymentState, zero and absent are equivalent, and setting the zero value removes the field.
type MachineDeploymentUpdate struct {
	MetadataUpdate
	ReplicatedUpdate

	RolloutPaused Change[bool]
	RolloutAfter  Change[time.Time]
	RollbackTo    Change[int64]

	Phase                                Change[string]
	UnavailableReplicas, UpdatedReplicas Change[int32]
}

// MachineDeploymentKind is a kind of MachineDeployment with its Adapter.
type MachineDeploymentKind = KindOf[MachineDeploymentState, MachineDeploymentUpdate]

// MachineDeploymentLayout locates the fields of a MachineDeployment of one shape. Its members correspond to those of MachineDeploymentState
// and MachineDeploymentUpdate. AnnotatedRolloutType applies when RolloutType is absent or RolloutRolling. With RolloutInPlace,
// InPlaceMaxSurge and InPlaceMaxUnavailable replace MaxSurge and MaxUnavailable in layouts that have them. As in a MachineLayout, a zero
// Field has no place.
type MachineDeploymentLayout struct {
	ReplicatedLayout

	RolloutPaused                        Field[bool]               `by:"user or controller" absent:"false"`
	RolloutType                          Field[string]             `by:"user" absent:"RollingUpdate"`
	AnnotatedRolloutType                 Field[string]             `by:"user" absent:"RolloutType applies"`
	InPlaceOrchestration                 Field[string]             `by:"user" absent:"Auto"`
	MaxSurge                             Field[intstr.IntOrString] `by:"user" absent:"1"`
	MaxUnavailable                       Field[intstr.IntOrString] `by:"user" absent:"0"`
	InPlaceMaxSurge                      Field[intstr.IntOrString] `by:"user" absent:"1"`
	InPlaceMaxUnavailable                Field[intstr.IntOrString] `by:"user" absent:"0"`
	RolloutAfter                         Field[time.Time]          `by:"user or controller" absent:"never"`
	RemediationMaxInFlight               Field[intstr.IntOrString] `by:"user" absent:"no limit"`
	RollbackTo                           Field[int64]              `by:"user or controller" absent:"no rollback"`
	RevisionHistoryLimit                 Field[int32]              `by:"user" absent:"1, or all"`
	ProgressDeadline                     Field[time.Duration]      `by:"user" absent:"no limit"`
	Phase                                Field[string]             `by:"controller" absent:"no phase yet"`
	UnavailableReplicas, UpdatedReplicas Field[int32]              `by:"controller" absent:"unknown"`
}

// machineDeploymentV1Beta2 has the rollback, and the rollout types that its field rejects, in annotations. It has no place for the history
// limit and the progress deadline, which that version has dropped: one old set is retained, and there is no progress deadline.
var machineDeploymentV1Beta2 = MachineDeploymentLayout{
	ReplicatedLayout:       replicatedV1Beta2(),
	RolloutPaused:          At[bool]("spec", "paused"),
	RolloutType:            At[string]("spec", "rollout", "strategy", "type"),
	AnnotatedRolloutType:   AtAnnotation[string](RolloutTypeAnnotation),
	InPlaceOrchestration:   AtAnnotation[string](OrchestrationAnnotation),
	MaxSurge:               At[intstr.IntOrString]("spec", "rollout", "strategy", "rollingUpdate", "maxSurge"),
	MaxUnavailable:         At[intstr.IntOrString]("spec", "rollout", "strategy", "rollingUpdate", "maxUnavailable"),
	RolloutAfter:           At[time.Time]("spec", "rollout", "after"),
	RemediationMaxInFlight: At[intstr.IntOrString]("spec", "remediation", "maxInFlight"),
	RollbackTo:             AtAnnotation[int64](RollbackToAnnotation),
	Phase:                  At[string]("status", "phase"),
	UnavailableReplicas:    At[int32]("status", "deprecated", "v1beta1", "unavailableReplicas"),
	UpdatedReplicas:        At[int32]("status", "deprecated", "v1beta1", "updatedReplicas"),
}

var machineDeploymentV1Beta1 = func() MachineDeploymentLayout {
	l := machineDeploymentV1Beta2
	l.ReplicatedLayout = replicatedV1Beta1()
	l.DeletionOrder = At[string]("spec", "strategy", "rollingUpdate", "deletePolicy") // next to the numbers of a rolling update
	l.RolloutType = At[string]("spec", "strategy", "type")
	l.MaxSurge = At[intstr.IntOrString]("spec", "strategy", "rollingUpdate", "maxSurge")
	l.MaxUnavailable = At[intstr.IntOrString]("spec", "strategy", "rollingUpdate", "maxUnavailable")
	l.RolloutAfter = At[time.Time]("spec", "rolloutAfter")
	l.RemediationMaxInFlight = At[intstr.IntOrString]("spec", "strategy", "remediation", "maxInFlight")
	l.RevisionHistoryLimit = At[int32]("spec", "revisionHistoryLimit")
	l.ProgressDeadline = SecondsAt("spec", "progressDeadlineSeconds")
	l.UnavailableReplicas = At[int32]("status", "unavailableReplicas")
	l.UpdatedReplicas = At[int32]("status", "updatedReplicas")
	return l
}()

func (l *MachineDeploymentLayout) read(obj map[string]any, into *MachineDeploymentState) error {
	x := &exchange{obj: obj}
	l.walk(x, into, &MachineDeploymentUpdate{})
	return x.err
}

func (l *MachineDeploymentLayout) write(obj map[string]any, u MachineDeploymentUpdate) error {
	x := &exchange{obj: obj, writes: true}
	l.walk(x, &MachineDeploymentState{}, &u)
	return x.err
}

func (l *MachineDeploymentLayout) walk(x *exchange, s *MachineDeploymentState, u *MachineDeploymentUpdate) {
	x.metadata(&s.Metadata, &u.MetadataUpdate)
	l.ReplicatedLayout.walk(x, &s.ReplicatedState, &u.ReplicatedUpdate)
	plain(x, l.RolloutPaused, &s.RolloutPaused, u.RolloutPaused)
	load(x, l.RolloutType, &s.RolloutType)
	if asked := text(x, l.AnnotatedRolloutType); asked != "" && (s.RolloutType == "" || s.RolloutType == RolloutRolling) {
		s.RolloutType = asked
	}
	load(x, l.InPlaceOrchestration, &s.InPlaceOrchestration)
	s.MaxSurge, s.MaxUnavailable = value(x, l.MaxSurge), value(x, l.MaxUnavailable)
	surge, unavailable := value(x, l.InPlaceMaxSurge), value(x, l.InPlaceMaxUnavailable)
	if s.RolloutType == RolloutInPlace && !l.InPlaceMaxSurge.path.IsZero() {
		s.MaxSurge, s.MaxUnavailable = surge, unavailable
	}
	plain(x, l.RolloutAfter, &s.RolloutAfter, u.RolloutAfter)
	s.RemediationMaxInFlight = value(x, l.RemediationMaxInFlight)
	distinct(x, l.RollbackTo, &s.RollbackTo, u.RollbackTo)
	s.RevisionHistoryLimit = value(x, l.RevisionHistoryLimit)
	s.ProgressDeadline = value(x, l.ProgressDeadline)
	plain(x, l.Phase, &s.Phase, u.Phase)
	distinct(x, l.UnavailableReplicas, &s.UnavailableReplicas, u.UnavailableReplicas)
	distinct(x, l.UpdatedReplicas, &s.UpdatedReplicas, u.UpdatedReplicas)
}
