package contract

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachineSetState is everything that a decision about a MachineSet may need, whatever shape the object has. Strings, maps,
// slices and the selector are read-only views.
type MachineSetState struct {
	Metadata
	ReplicatedState

	// FullyLabeledReplicas counts the Machines that have all labels of the template. Cluster API has deprecated it.
	FullyLabeledReplicas Opt[int32]
}

// MachineSetUpdate is what a pass wants to change. The zero update changes nothing. Where MachineSetState has no Opt, zero
// and absent are the same to every reader, and setting the zero value removes the field.
type MachineSetUpdate struct {
	MetadataUpdate
	ReplicatedUpdate

	FullyLabeledReplicas Change[int32]
}

// MachineSetKind is a kind of MachineSet and how to read it.
type MachineSetKind = KindOf[MachineSetState, MachineSetUpdate]

// MachineSetLayout says where a MachineSet of one shape keeps its state: the fields of MachineSetState and MachineSetUpdate
// with the same names. As in a MachineLayout, a zero Field is "no such place".
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
	r := &reader{obj: obj}
	r.metadata(&into.Metadata)
	l.ReplicatedLayout.read(r, &into.ReplicatedState)
	into.FullyLabeledReplicas = value(r, l.FullyLabeledReplicas)
	return r.err
}

func (l *MachineSetLayout) write(obj map[string]any, u MachineSetUpdate) error {
	w := &writer{obj: obj}
	w.metadata(u.MetadataUpdate)
	l.ReplicatedLayout.write(w, u.ReplicatedUpdate)
	put(w, l.FullyLabeledReplicas, u.FullyLabeledReplicas)
	return w.err
}

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
	// RevisionHistoryLimit is how many old sets are kept, where absent one or what Kinds.AllRevisions says, and ProgressDeadline how long
	// a rollout may stand still, where absent without a limit. Cluster API has them in v1beta1 only, and no longer acts on them.
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

// MachineDeploymentLayout says where a MachineDeployment of one shape keeps its state: the fields of MachineDeploymentState
// and MachineDeploymentUpdate with the same names. AnnotatedRolloutType counts where RolloutType is absent or says RolloutRolling.
// InPlaceMaxSurge and InPlaceMaxUnavailable, where a layout has them, take the place of the other two with RolloutInPlace. As in a
// MachineLayout, a zero Field is "no such place".
type MachineDeploymentLayout struct {
	ReplicatedLayout

	RolloutPaused                        Field[bool]               `by:"user or controller" absent:"false"`
	RolloutType                          Field[string]             `by:"user" absent:"RollingUpdate"`
	AnnotatedRolloutType                 Field[string]             `by:"user" absent:"what RolloutType says"`
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

// machineDeploymentV1Beta2 has the rollback, and the ways of a rollout that its field refuses, in annotations. It has no place for the
// limit of the history and the progress deadline, which that version has dropped: one old set is kept, and a rollout may stand still
// without a limit.
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
	l.DeletionOrder = At[string]("spec", "strategy", "rollingUpdate", "deletePolicy") // beside the numbers of a rolling update
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
	r := &reader{obj: obj}
	r.metadata(&into.Metadata)
	l.ReplicatedLayout.read(r, &into.ReplicatedState)
	into.RolloutPaused = value(r, l.RolloutPaused).Or(false)
	into.RolloutType = text(r, l.RolloutType)
	if asked := text(r, l.AnnotatedRolloutType); asked != "" && (into.RolloutType == "" || into.RolloutType == RolloutRolling) {
		into.RolloutType = asked
	}
	into.InPlaceOrchestration = text(r, l.InPlaceOrchestration)
	into.MaxSurge, into.MaxUnavailable = value(r, l.MaxSurge), value(r, l.MaxUnavailable)
	surge, unavailable := value(r, l.InPlaceMaxSurge), value(r, l.InPlaceMaxUnavailable)
	if into.RolloutType == RolloutInPlace && !l.InPlaceMaxSurge.path.IsZero() {
		into.MaxSurge, into.MaxUnavailable = surge, unavailable
	}
	into.RolloutAfter = r.time(l.RolloutAfter)
	into.RemediationMaxInFlight = value(r, l.RemediationMaxInFlight)
	into.RollbackTo = value(r, l.RollbackTo)
	into.RevisionHistoryLimit = value(r, l.RevisionHistoryLimit)
	into.ProgressDeadline = value(r, l.ProgressDeadline)
	into.Phase = text(r, l.Phase)
	into.UnavailableReplicas = value(r, l.UnavailableReplicas)
	into.UpdatedReplicas = value(r, l.UpdatedReplicas)
	return r.err
}

func (l *MachineDeploymentLayout) write(obj map[string]any, u MachineDeploymentUpdate) error {
	w := &writer{obj: obj}
	w.metadata(u.MetadataUpdate)
	l.ReplicatedLayout.write(w, u.ReplicatedUpdate)
	put(w, l.RolloutPaused, orClear(u.RolloutPaused))
	put(w, l.RolloutAfter, orClear(u.RolloutAfter))
	put(w, l.RollbackTo, u.RollbackTo)
	put(w, l.Phase, orClear(u.Phase))
	put(w, l.UnavailableReplicas, u.UnavailableReplicas)
	put(w, l.UpdatedReplicas, u.UpdatedReplicas)
	return w.err
}
