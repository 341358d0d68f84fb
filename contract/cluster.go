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
