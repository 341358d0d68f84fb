package contract

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ClusterState is what a Cluster says that a Machine needs to know. Strings, maps and slices are read-only views.
type ClusterState struct {
	Metadata
	// SpecPaused asks to leave everything of the Cluster alone; the annotation is in Metadata.
	SpecPaused bool
	// InfrastructureProvisioned and ControlPlaneInitialized are false while the object does not say.
	InfrastructureProvisioned, ControlPlaneInitialized bool
	// ControlPlaneInitializedAt is when the control plane came to be initialized, zero before and when that is not known.
	ControlPlaneInitializedAt time.Time
	// InfrastructureUnready says that the condition InfrastructureReady is not True: the infrastructure fails, or is not there yet.
	// InfrastructureReadyAt is since when it is True, zero when it is not, or that is not known.
	InfrastructureUnready bool
	InfrastructureReadyAt time.Time
	// ControlPlane names the object that runs the control plane, the zero Ref without.
	ControlPlane Ref
	// Unreadable says why the conditions could not be read, nil when they could; it holds nothing up, because flags say the same. It
	// matches ErrWrongType.
	Unreadable error
}

// ConditionControlPlaneInitialized is True on a Cluster since the API server of its control plane has answered for the first
// time, and does not go back.
const ConditionControlPlaneInitialized = "ControlPlaneInitialized"

// ClusterLayout says where a Cluster of one API version of cluster.x-k8s.io keeps what its Machines read of it. The tags are those of
// MachineLayout.
type ClusterLayout struct {
	// Version is the API version of cluster.x-k8s.io, for error messages.
	Version Version
	// Paused is true when everything of the Cluster is to be left alone.
	Paused Field[bool] `by:"user" absent:"not paused"`
	// InfrastructureProvisioned is true once what Machines share, such as networks, exists.
	InfrastructureProvisioned Field[bool] `by:"controller" absent:"not yet"`
	// ControlPlaneInitialized is true once the API server has answered. The condition of that name says the same.
	ControlPlaneInitialized Field[bool] `by:"controller" absent:"what the condition says"`
	// ControlPlane names the object that runs the control plane.
	ControlPlane RefField `by:"user" absent:"Machines without a controller, or none"`
	// Conditions hold ControlPlaneInitialized and InfrastructureReady.
	Conditions ConditionsField `by:"controller" absent:"none, and the flag counts"`
}

func clusterV1Beta1() ClusterLayout {
	return ClusterLayout{
		Version:                   V1Beta1,
		Paused:                    At[bool]("spec", "paused"),
		InfrastructureProvisioned: At[bool]("status", "infrastructureReady"),
		ControlPlane:              objectRefAt("spec", "controlPlaneRef"),
		Conditions:                conditionsShaped(shapeV1Beta1, "status", "conditions"),
	}
}

func clusterV1Beta2() ClusterLayout {
	return ClusterLayout{
		Version:                   V1Beta2,
		Paused:                    At[bool]("spec", "paused"),
		InfrastructureProvisioned: At[bool]("status", "initialization", "infrastructureProvisioned"),
		ControlPlaneInitialized:   At[bool]("status", "initialization", "controlPlaneInitialized"),
		ControlPlane:              RefAt("spec", "controlPlaneRef"),
		Conditions:                ConditionsAt("status", "conditions"),
	}
}

// Read fills every field of into from the object; it neither changes nor keeps obj, and shares strings with it. The error names
// the object and matches ErrWrongType or ErrUnknownVersion; discard into after an error: a Cluster whose pause cannot be read
// must not pass for one that is not paused.
func (l *ClusterLayout) Read(obj *unstructured.Unstructured, into *ClusterState) error {
	if l == nil {
		return unknownVersion(obj)
	}
	return breaks(obj, l.Version, l.read(obj.Object, into))
}

func (l *ClusterLayout) read(obj map[string]any, into *ClusterState) error {
	r := &reader{obj: obj} // stays on the stack: nothing below keeps it
	r.metadata(&into.Metadata)
	into.SpecPaused = value(r, l.Paused).Or(false)
	into.InfrastructureProvisioned = value(r, l.InfrastructureProvisioned).Or(false)
	into.ControlPlaneInitialized = value(r, l.ControlPlaneInitialized).Or(false)
	into.ControlPlane = r.ref(l.ControlPlane)
	into.ControlPlaneInitializedAt, into.Unreadable = time.Time{}, nil
	into.InfrastructureUnready, into.InfrastructureReadyAt = false, time.Time{}
	if r.err != nil {
		return r.err
	}
	initialized, found, err := l.Conditions.Find(obj, ConditionControlPlaneInitialized)
	into.Unreadable = err
	if err == nil && found && initialized.Status == metav1.ConditionTrue {
		into.ControlPlaneInitialized, into.ControlPlaneInitializedAt = true, initialized.LastTransitionTime.Time
	}
	infrastructure, found, err := l.Conditions.Find(obj, ConditionInfrastructureReady)
	if into.Unreadable == nil {
		into.Unreadable = err
	}
	if err == nil && found && infrastructure.Status == metav1.ConditionTrue {
		into.InfrastructureReadyAt = infrastructure.LastTransitionTime.Time
	}
	into.InfrastructureUnready = err == nil && found && infrastructure.Status != metav1.ConditionTrue
	return nil
}

// ControlPlaneLayout says where a ControlPlane of one contract version keeps what Machines and their sets read of it: a
// Machine asks before it drains whether the control plane goes away too and whether it has Machines at all, a MachineSet
// whether it may create Machines of a version. Rule: contract page "ControlPlane". The tags are those of MachineLayout and say what the
// contract demands.
type ControlPlaneLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// Deleting is when deletion was asked for.
	Deleting Field[time.Time] `by:"API server" absent:"not being deleted"`
	// ExternalManagedControlPlane is true when the control plane has no Nodes in the cluster, and so no Machines to count.
	ExternalManagedControlPlane Field[bool] `by:"provider" need:"MAY" absent:"false"`
	// DesiredVersion is the Kubernetes version that is asked for, CurrentVersion the lowest one of the control plane.
	DesiredVersion Field[string] `by:"user" need:"MAY" absent:"the provider knows no versions"`
	CurrentVersion Field[string] `by:"provider" need:"MAY" absent:"made for the first time, or unknown"`
	// CurrentVersions lists all versions of the control plane, since Cluster API v1.14, and goes before CurrentVersion.
	CurrentVersions Field[string] `by:"provider" need:"MAY" absent:"what CurrentVersion says"`
}

// ControlPlaneState is what a ControlPlane says.
type ControlPlaneState struct {
	// Deleting is zero while deletion was not requested.
	Deleting time.Time
	// ExternalManagedControlPlane is false while the object does not say.
	ExternalManagedControlPlane bool
	// DesiredVersion and CurrentVersion are empty while the object does not say. Of several current versions it is the lowest.
	DesiredVersion, CurrentVersion string
	// Unreadable says what of the versions could not be read, nil when everything could: no
	// Machine waits for them, and a provider that has no such notion may use the names for something else. It matches
	// ErrWrongType.
	Unreadable error
}

func controlPlane(v Version) ControlPlaneLayout {
	return ControlPlaneLayout{
		Version:                     v,
		Deleting:                    metaDeleting,
		ExternalManagedControlPlane: At[bool]("status", "externalManagedControlPlane"),
		DesiredVersion:              At[string]("spec", "version"),
		CurrentVersion:              At[string]("status", "version"),
		CurrentVersions:             lowestVersionAt("status", "versions"),
	}
}

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
	into.ExternalManagedControlPlane = value(r, l.ExternalManagedControlPlane).Or(false)
	into.Unreadable = nil
	if r.err != nil {
		return r.err
	}
	into.DesiredVersion = text(r, l.DesiredVersion)
	r.spare(&into.Unreadable)
	into.CurrentVersion = text(r, l.CurrentVersion)
	r.spare(&into.Unreadable)
	if lowest := text(r, l.CurrentVersions); lowest != "" {
		into.CurrentVersion = lowest
	}
	r.spare(&into.Unreadable)
	return nil
}
