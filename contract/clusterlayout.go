package contract

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ConditionControlPlaneInitialized is True on a Cluster since the API server of its control plane has answered for the first
// time, and does not go back.
const ConditionControlPlaneInitialized = "ControlPlaneInitialized"

// ClusterLayout says where a Cluster of one API version keeps what its Machines read of it. The tables returned by Cluster
// are shared: copy one to change it. The tags are those of MachineLayout.
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

var clusterTables = tables[ClusterLayout]{
	V1Beta1: {
		Version:                   V1Beta1,
		Paused:                    At[bool]("spec", "paused"),
		InfrastructureProvisioned: At[bool]("status", "infrastructureReady"),
		ControlPlane:              objectRefAt("spec", "controlPlaneRef"),
		Conditions:                conditionsShaped(shapeV1Beta1, "status", "conditions"),
	},
	V1Beta2: {
		Version:                   V1Beta2,
		Paused:                    At[bool]("spec", "paused"),
		InfrastructureProvisioned: At[bool]("status", "initialization", "infrastructureProvisioned"),
		ControlPlaneInitialized:   At[bool]("status", "initialization", "controlPlaneInitialized"),
		ControlPlane:              RefAt("spec", "controlPlaneRef"),
		Conditions:                ConditionsAt("status", "conditions"),
	},
}

// Cluster returns the layout of Cluster in an API version of cluster.x-k8s.io, V1Beta1 or V1Beta2, and nil for any other. The
// table is shared and must not be changed; copy it to make a dialect.
func Cluster(v Version) *ClusterLayout { return clusterTables[v] }

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
