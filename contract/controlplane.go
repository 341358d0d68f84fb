package contract

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ControlPlaneLayout says where a ControlPlane of one contract version keeps what Machines and their sets read of it: a
// Machine asks before it drains whether the control plane goes away too and whether it has Machines at all, a MachineSet
// whether it may create Machines of a version. Rule: contract page "ControlPlane". The tables returned by ControlPlane are
// shared: copy one to change it. The tags are those of MachineLayout and say what the contract demands.
type ControlPlaneLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// Deleting is when deletion was asked for.
	Deleting Field[time.Time] `by:"API server" absent:"not being deleted"`
	// Initialized is true once the API server answers.
	Initialized Field[bool] `by:"provider" need:"MUST" absent:"not yet"`
	// ExternalManagedControlPlane is true when the control plane has no Nodes in the cluster, and so no Machines to count.
	ExternalManagedControlPlane Field[bool] `by:"provider" need:"MAY" absent:"false"`
	// DesiredVersion is the Kubernetes version that is asked for, CurrentVersion the lowest one of the control plane.
	DesiredVersion Field[string] `by:"user" need:"MAY" absent:"the provider knows no versions"`
	CurrentVersion Field[string] `by:"provider" need:"MAY" absent:"made for the first time, or unknown"`
	// CurrentVersions lists all versions of the control plane, since Cluster API v1.14, and goes before CurrentVersion.
	CurrentVersions Field[string] `by:"provider" need:"MAY" absent:"what CurrentVersion says"`
	// FailureReason and FailureMessage are a failure that does not go away by itself. The contract has dropped both in
	// v1beta2.
	FailureReason  Field[string] `by:"provider" need:"MAY" absent:"no failure"`
	FailureMessage Field[string] `by:"provider" need:"MAY" absent:"no failure"`
	// Paused is an annotation whose presence counts.
	Paused Field[string] `by:"user" need:"MAY" absent:"not paused"`
	// Conditions hold an Available condition. The list of a provider in transition (status.v1beta2.conditions) goes first.
	Conditions ConditionsField `by:"provider" need:"SHOULD" absent:"none"`
}

// ControlPlaneState is what a ControlPlane says.
type ControlPlaneState struct {
	// Deleting is zero while deletion was not requested.
	Deleting time.Time
	// Initialized and ExternalManagedControlPlane are false while the object does not say.
	Initialized, ExternalManagedControlPlane bool
	// DesiredVersion and CurrentVersion are empty while the object does not say. Of several current versions it is the lowest.
	DesiredVersion, CurrentVersion string
	// FailureReason and FailureMessage are empty without a failure.
	FailureReason, FailureMessage string
	// Paused says that the object asks to be left alone.
	Paused bool
	// Available is the condition of that type. One that cannot be read is Unknown with ReasonInvalidCondition.
	Available Opt[metav1.Condition]
	// Unreadable says what of the versions and the failure could not be read, nil when everything could: no
	// Machine waits for them, and a provider that has no such notion may use the names for something else. It matches
	// ErrWrongType.
	Unreadable error
}

var controlPlaneTables = tablesOf(
	func(v Version) ControlPlaneLayout {
		l := controlPlaneSinceV1Beta2(v)
		l.Initialized = At[bool]("status", "initialized")
		return l
	},
	controlPlaneSinceV1Beta2,
)

func controlPlaneSinceV1Beta2(v Version) ControlPlaneLayout {
	return ControlPlaneLayout{
		Version:                     v,
		Deleting:                    metaDeleting,
		Initialized:                 At[bool]("status", "initialization", "controlPlaneInitialized"),
		ExternalManagedControlPlane: At[bool]("status", "externalManagedControlPlane"),
		DesiredVersion:              At[string]("spec", "version"),
		CurrentVersion:              At[string]("status", "version"),
		CurrentVersions:             lowestVersionAt("status", "versions"),
		FailureReason:               At[string]("status", "failureReason"),
		FailureMessage:              At[string]("status", "failureMessage"),
		Paused:                      AtAnnotation[string](PausedAnnotation),
		Conditions:                  providerConditions(),
	}
}

// ControlPlane returns the layout of a contract version, nil for one that is not supported. The table is shared and must
// not be changed; copy it to make a dialect.
func ControlPlane(v Version) *ControlPlaneLayout { return controlPlaneTables.of(v) }

// Read fills every field of into from the object; it neither changes nor keeps obj, and allocates nothing while times are
// in UTC. The error names the object and matches ErrWrongType or ErrUnknownVersion; discard into after an error.
// Cluster API calls an externalManagedControlPlane of another type false; here it is an error, because whether a Node is
// drained depends on it.
func (l *ControlPlaneLayout) Read(obj *unstructured.Unstructured, into *ControlPlaneState) error {
	if l == nil {
		return unknownVersion(obj)
	}
	return breaks(obj, l.Version, l.read(obj.Object, into))
}

func (l *ControlPlaneLayout) read(obj map[string]any, into *ControlPlaneState) error {
	r := &reader{obj: obj} // stays on the stack: nothing below keeps it
	into.Deleting = r.time(l.Deleting)
	into.Initialized = value(r, l.Initialized).Or(false)
	into.ExternalManagedControlPlane = value(r, l.ExternalManagedControlPlane).Or(false)
	into.Paused = value(r, l.Paused).Found()
	into.Available = mirrored(l.Conditions, obj, ConditionAvailable)
	into.Unreadable = nil
	if r.err != nil {
		return r.err
	}
	for _, text := range [...]struct {
		field Field[string]
		into  *string
	}{
		{l.DesiredVersion, &into.DesiredVersion}, {l.CurrentVersion, &into.CurrentVersion},
		{l.FailureReason, &into.FailureReason}, {l.FailureMessage, &into.FailureMessage},
	} {
		*text.into = value(r, text.field).Or("")
		r.spare(&into.Unreadable)
	}
	if lowest := text(r, l.CurrentVersions); lowest != "" {
		into.CurrentVersion = lowest
	}
	r.spare(&into.Unreadable)
	return nil
}
