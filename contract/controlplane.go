package contract

import (
	"time"

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

var controlPlaneTables = tablesOf(controlPlane, controlPlane)

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

// ControlPlane returns the layout of a contract version, nil for one that is not supported. The table is shared and must
// not be changed; copy it to make a dialect.
func ControlPlane(v Version) *ControlPlaneLayout { return controlPlaneTables[v] }

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
	for _, text := range [...]struct {
		field Field[string]
		into  *string
	}{
		{l.DesiredVersion, &into.DesiredVersion}, {l.CurrentVersion, &into.CurrentVersion},
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
