package contract

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Common holds the members that the states of all kinds share. The slice is a read-only view; Metadata may be changed.
type Common struct {
	*Metadata

	ClusterName        string
	Conditions         []metav1.Condition
	ObservedGeneration int64
}

// CommonUpdate points to the members that the updates of all kinds share.
type CommonUpdate struct {
	*MetadataUpdate

	Conditions         *[]metav1.Condition
	ObservedGeneration *Change[int64]
}

// CommonOf returns the shared members of a state of this package, and the zero Common for any other type.
func CommonOf[S any](state *S) Common {
	switch s := any(state).(type) {
	case *MachineState:
		return Common{&s.Metadata, s.ClusterName, s.Conditions, s.ObservedGeneration}
	case *MachineSetState:
		return s.common(&s.Metadata)
	case *MachineDeploymentState:
		return s.common(&s.Metadata)
	case *MachinePoolState:
		return s.common(&s.Metadata)
	case *HealthCheckState:
		return Common{&s.Metadata, s.ClusterName, s.Conditions, s.ObservedGeneration}
	case *ProvidedMachineState:
		return Common{&s.Metadata, s.ClusterName, s.Conditions, s.ObservedGeneration}
	}
	return Common{}
}

func (s *ReplicatedState) common(m *Metadata) Common {
	return Common{m, s.ClusterName, s.Conditions, s.ObservedGeneration}
}

// ChangesOf returns the shared members of an update of this package, and the zero CommonUpdate for any other type.
func ChangesOf[U any](update *U) CommonUpdate {
	switch u := any(update).(type) {
	case *MachineUpdate:
		return CommonUpdate{&u.MetadataUpdate, &u.Conditions, &u.ObservedGeneration}
	case *MachineSetUpdate:
		return u.common(&u.MetadataUpdate)
	case *MachineDeploymentUpdate:
		return u.common(&u.MetadataUpdate)
	case *MachinePoolUpdate:
		return u.common(&u.MetadataUpdate)
	case *HealthCheckUpdate:
		return CommonUpdate{&u.MetadataUpdate, &u.Conditions, &u.ObservedGeneration}
	case *ProvidedMachineUpdate:
		return CommonUpdate{&u.MetadataUpdate, &u.Conditions, &u.ObservedGeneration}
	}
	return CommonUpdate{}
}

func (u *ReplicatedUpdate) common(m *MetadataUpdate) CommonUpdate {
	return CommonUpdate{m, &u.Conditions, &u.ObservedGeneration}
}
