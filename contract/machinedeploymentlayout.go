package contract

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachineDeploymentLayout says where a MachineDeployment of one shape keeps its state: the fields of MachineDeploymentState
// and MachineDeploymentUpdate with the same names. AnnotatedRolloutType counts where RolloutType is absent or says RolloutRolling.
// InPlaceMaxSurge and InPlaceMaxUnavailable, where a layout has them, take the place of the other two with RolloutInPlace. As in a
// MachineLayout, a zero Field is "no such place", and tables are shared: copy one to make a layout of your own.
type MachineDeploymentLayout struct {
	ReplicatedLayout

	RolloutPaused          Field[bool]               `by:"user or controller" absent:"false"`
	RolloutType            Field[string]             `by:"user" absent:"RollingUpdate"`
	AnnotatedRolloutType   Field[string]             `by:"user" absent:"what RolloutType says"`
	InPlaceOrchestration   Field[string]             `by:"user" absent:"Auto"`
	MaxSurge               Field[intstr.IntOrString] `by:"user" absent:"1"`
	MaxUnavailable         Field[intstr.IntOrString] `by:"user" absent:"0"`
	InPlaceMaxSurge        Field[intstr.IntOrString] `by:"user" absent:"1"`
	InPlaceMaxUnavailable  Field[intstr.IntOrString] `by:"user" absent:"0"`
	RolloutAfter           Field[time.Time]          `by:"user or controller" absent:"never"`
	RemediationMaxInFlight Field[intstr.IntOrString] `by:"user" absent:"no limit"`
	RollbackTo             Field[int64]              `by:"user or controller" absent:"no rollback"`
	RevisionHistoryLimit   Field[int32]              `by:"user" absent:"not said"`
	ProgressDeadline       Field[time.Duration]      `by:"user" absent:"no limit"`
	Phase                  Field[string]             `by:"controller" absent:"no phase yet"`
	UnavailableReplicas    Field[int32]              `by:"controller" absent:"unknown"`
	UpdatedReplicas        Field[int32]              `by:"controller" absent:"unknown"`
}

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
	RevisionHistoryLimit:   AtAnnotation[int32](RevisionHistoryLimitAnnotation),
	ProgressDeadline:       At[time.Duration]("metadata", "annotations", ProgressDeadlineAnnotation),
	Phase:                  At[string]("status", "phase"),
	UnavailableReplicas:    At[int32]("status", "deprecated", "v1beta1", "unavailableReplicas"),
	UpdatedReplicas:        At[int32]("status", "deprecated", "v1beta1", "updatedReplicas"),
}

// MachineDeploymentV1Beta2 returns the layout of MachineDeployment in cluster.x-k8s.io/v1beta2. What that schema has no field for, the
// limit of the history, the progress deadline, the rollback, and the ways of a rollout that its field refuses, is in annotations. The
// table is shared and must not be changed.
func MachineDeploymentV1Beta2() *MachineDeploymentLayout { return &machineDeploymentV1Beta2 }

// deployedV1Beta1 knows that deployments of that version have the order of deletion beside the numbers of a rolling update.
func deployedV1Beta1() ReplicatedLayout {
	l := replicatedV1Beta1()
	l.DeletionOrder = At[string]("spec", "strategy", "rollingUpdate", "deletePolicy")
	return l
}

var machineDeploymentV1Beta1 = MachineDeploymentLayout{
	ReplicatedLayout:       deployedV1Beta1(),
	RolloutPaused:          At[bool]("spec", "paused"),
	RolloutType:            At[string]("spec", "strategy", "type"),
	AnnotatedRolloutType:   AtAnnotation[string](RolloutTypeAnnotation),
	InPlaceOrchestration:   AtAnnotation[string](OrchestrationAnnotation),
	MaxSurge:               At[intstr.IntOrString]("spec", "strategy", "rollingUpdate", "maxSurge"),
	MaxUnavailable:         At[intstr.IntOrString]("spec", "strategy", "rollingUpdate", "maxUnavailable"),
	RolloutAfter:           At[time.Time]("spec", "rolloutAfter"),
	RemediationMaxInFlight: At[intstr.IntOrString]("spec", "strategy", "remediation", "maxInFlight"),
	RollbackTo:             AtAnnotation[int64](RollbackToAnnotation),
	RevisionHistoryLimit:   At[int32]("spec", "revisionHistoryLimit"),
	ProgressDeadline:       SecondsAt("spec", "progressDeadlineSeconds"),
	Phase:                  At[string]("status", "phase"),
	UnavailableReplicas:    At[int32]("status", "unavailableReplicas"),
	UpdatedReplicas:        At[int32]("status", "updatedReplicas"),
}

// MachineDeploymentV1Beta1 returns the layout of MachineDeployment in cluster.x-k8s.io/v1beta1. Conditions are written in
// both shapes and places that this version has. The table is shared and must not be changed.
func MachineDeploymentV1Beta1() *MachineDeploymentLayout { return &machineDeploymentV1Beta1 }

func (l *MachineDeploymentLayout) missing() bool { return l == nil }

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
