package contract

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ClusterState is the part of a Cluster that its Machines need. Strings, maps and slices are read-only views.
type ClusterState struct {
	Metadata
	// SpecPaused is true when spec.paused pauses all objects of the Cluster. The pause annotation is in Metadata.
	SpecPaused bool
	// InfrastructureProvisioned and ControlPlaneInitialized are false when absent.
	InfrastructureProvisioned, ControlPlaneInitialized bool
	// ControlPlaneInitializedAt is when the control plane was initialized, zero before or when unknown.
	ControlPlaneInitializedAt time.Time
	// InfrastructureUnready is true when the condition InfrastructureReady is not True: the infrastructure fails or does not exist yet.
	// InfrastructureReadyAt is when the condition became True, zero when it is not True or the time is unknown.
	InfrastructureUnready bool
	InfrastructureReadyAt time.Time
	// ControlPlane refers to the object that runs the control plane; the zero Ref means none.
	ControlPlane Ref
	// Unreadable is the error of reading the conditions, nil when they are readable. It blocks nothing, because flags report the same. It
	// matches ErrWrongType.
	Unreadable error
}

// ConditionControlPlaneInitialized becomes True on a Cluster when the API server of its control plane first answers, and stays True.
const ConditionControlPlaneInitialized = "ControlPlaneInitialized"

// ClusterLayout locates the fields of a Cluster that its Machines read, in one API version of cluster.x-k8s.io. The tags are those of
// MachineLayout.
type ClusterLayout struct {
	// Version is the API version of cluster.x-k8s.io, for error messages.
	Version Version
	// Paused is true when all objects of the Cluster are paused.
	Paused Field[bool] `by:"user" absent:"not paused"`
	// InfrastructureProvisioned is true once the infrastructure that Machines share, such as networks, exists.
	InfrastructureProvisioned Field[bool] `by:"controller" absent:"not yet"`
	// ControlPlaneInitialized is true once the API server has answered. The condition of the same name reports the same.
	ControlPlaneInitialized Field[bool] `by:"controller" absent:"the condition applies"`
	// ControlPlane refers to the object that runs the control plane.
	ControlPlane RefField `by:"user" absent:"Machines without a controller, or none"`
	// Conditions holds the list with ControlPlaneInitialized and InfrastructureReady.
	Conditions ConditionsField `by:"controller" absent:"none, and the flag applies"`
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

// Read fills every field of into from obj. It neither changes nor retains obj, but shares strings with it. The error names the object and
// matches ErrWrongType or ErrUnknownVersion. Discard into after an error: a Cluster whose pause cannot be read must not be treated as
// running.
func (l *ClusterLayout) Read(obj *unstructured.Unstructured, into *ClusterState) error {
	if l == nil {
		return unknownVersion(obj)
	}
	return breaks(obj, l.Version, l.read(obj.Object, into))
}

func (l *ClusterLayout) read(obj map[string]any, into *ClusterState) error {
	r := &exchange{obj: obj} // stays on the stack: nothing below retains it
	r.metadata(&into.Metadata, &MetadataUpdate{})
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

// ControlPlaneLayout locates the fields of a ControlPlane that Machines and their sets read, in one contract version. Before a drain, a
// Machine needs to know whether the control plane is being deleted and whether it has Machines. A MachineSet needs to know whether it may
// create Machines of a Kubernetes version. Rule: contract page "ControlPlane". The tags are those of MachineLayout, and need is the
// requirement level of the contract.
type ControlPlaneLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// Deleting is when deletion was requested.
	Deleting Field[time.Time] `by:"API server" absent:"not being deleted"`
	// ExternalManagedControlPlane is true when the control plane has no Nodes in the cluster, and therefore no Machines to count.
	ExternalManagedControlPlane Field[bool] `by:"provider" need:"MAY" absent:"false"`
	// DesiredVersion is the desired Kubernetes version, CurrentVersion the lowest version of the control plane.
	DesiredVersion Field[string] `by:"user" need:"MAY" absent:"the provider has no versions"`
	CurrentVersion Field[string] `by:"provider" need:"MAY" absent:"made for the first time, or unknown"`
	// CurrentVersions lists all versions of the control plane, since Cluster API v1.14. It takes precedence over CurrentVersion.
	CurrentVersions Field[[]string] `by:"provider" need:"MAY" absent:"CurrentVersion applies"`
}

// ControlPlaneState is the part of a ControlPlane that Machines and their sets need.
type ControlPlaneState struct {
	// Deleting is zero when deletion was not requested.
	Deleting time.Time
	// ExternalManagedControlPlane is false when absent.
	ExternalManagedControlPlane bool
	// DesiredVersion and CurrentVersion are empty when absent. CurrentVersion is the lowest of several.
	DesiredVersion, CurrentVersion string
	// Unreadable is the error of reading the versions, nil when they are readable. It blocks no Machine: a provider without versions may use
	// these field names for something else. It matches ErrWrongType.
	Unreadable error
}

func controlPlane(v Version) ControlPlaneLayout {
	return ControlPlaneLayout{
		Version:                     v,
		Deleting:                    metaDeleting,
		ExternalManagedControlPlane: At[bool]("status", "externalManagedControlPlane"),
		DesiredVersion:              At[string]("spec", "version"),
		CurrentVersion:              At[string]("status", "version"),
		CurrentVersions:             versionsAt("status", "versions"),
	}
}

// Read fills every field of into from obj. It neither changes nor retains obj, and allocates nothing while times are in UTC. The error
// names the object and matches ErrWrongType or ErrUnknownVersion; discard into after an error. Cluster API treats an
// externalManagedControlPlane of another type as false. Here it is an error, because it decides whether a Node is drained.
func (l *ControlPlaneLayout) Read(obj *unstructured.Unstructured, into *ControlPlaneState) error {
	if l == nil {
		return unknownVersion(obj)
	}
	return breaks(obj, l.Version, l.read(obj.Object, into))
}

func (l *ControlPlaneLayout) read(obj map[string]any, into *ControlPlaneState) error {
	r := &exchange{obj: obj} // stays on the stack: nothing below retains it
	load(r, l.Deleting, &into.Deleting)
	into.ExternalManagedControlPlane = value(r, l.ExternalManagedControlPlane).Or(false)
	into.Unreadable = nil
	if r.err != nil {
		return r.err
	}
	into.DesiredVersion = text(r, l.DesiredVersion)
	r.spare(&into.Unreadable)
	into.CurrentVersion = text(r, l.CurrentVersion)
	r.spare(&into.Unreadable)
	if lowest := lowestVersion(value(r, l.CurrentVersions).Or(nil)); lowest != "" {
		into.CurrentVersion = lowest
	}
	r.spare(&into.Unreadable)
	return nil
}
