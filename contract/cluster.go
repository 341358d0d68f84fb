package contract

import "time"

// ClusterState is what a Cluster says that a Machine needs to know. Strings, maps and slices are read-only views.
type ClusterState struct {
	Metadata
	// SpecPaused asks to leave everything of the Cluster alone; the annotation is in Metadata.
	SpecPaused bool
	// InfrastructureProvisioned and ControlPlaneInitialized are false while the object does not say.
	InfrastructureProvisioned, ControlPlaneInitialized bool
	// ControlPlaneInitializedAt is when the control plane came to be initialized, zero before and when that is not known.
	ControlPlaneInitializedAt time.Time
	// ControlPlane names the object that runs the control plane, the zero Ref without.
	ControlPlane Ref
	// Unreadable says why the condition ControlPlaneInitialized could not be read, nil when it could; it holds nothing up, because
	// a flag says the same. It matches ErrWrongType.
	Unreadable error
}
