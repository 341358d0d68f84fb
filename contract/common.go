package contract

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Common are the members that the states of all kinds have. The slice is a read-only view; Metadata may be changed.
type Common struct {
	*Metadata

	ClusterName        string
	Conditions         []metav1.Condition
	ObservedGeneration int64
}

// CommonUpdate points to the members that the updates of all kinds have.
type CommonUpdate struct {
	*MetadataUpdate

	Conditions         *[]metav1.Condition
	ObservedGeneration *Change[int64]
}

// Common returns the members that all kinds have.
func (s *MachineState) Common() Common {
	return Common{&s.Metadata, s.ClusterName, s.Conditions, s.ObservedGeneration}
}

// Common returns the members that all kinds have.
func (s *MachineSetState) Common() Common { return s.common(&s.Metadata) }

// Common returns the members that all kinds have.
func (s *MachineDeploymentState) Common() Common { return s.common(&s.Metadata) }

// Common returns the members that all kinds have.
func (s *MachinePoolState) Common() Common { return s.common(&s.Metadata) }

// Common returns the members that all kinds have.
func (s *HealthCheckState) Common() Common {
	return Common{&s.Metadata, s.ClusterName, s.Conditions, s.ObservedGeneration}
}

func (s *ReplicatedState) common(m *Metadata) Common {
	return Common{m, s.ClusterName, s.Conditions, s.ObservedGeneration}
}

// Common returns the members that all kinds have.
func (u *MachineUpdate) Common() CommonUpdate {
	return CommonUpdate{&u.MetadataUpdate, &u.Conditions, &u.ObservedGeneration}
}

// Common returns the members that all kinds have.
func (u *MachineSetUpdate) Common() CommonUpdate { return u.common(&u.MetadataUpdate) }

// Common returns the members that all kinds have.
func (u *MachineDeploymentUpdate) Common() CommonUpdate { return u.common(&u.MetadataUpdate) }

// Common returns the members that all kinds have.
func (u *MachinePoolUpdate) Common() CommonUpdate { return u.common(&u.MetadataUpdate) }

// Common returns the members that all kinds have.
func (u *HealthCheckUpdate) Common() CommonUpdate {
	return CommonUpdate{&u.MetadataUpdate, &u.Conditions, &u.ObservedGeneration}
}

func (u *ReplicatedUpdate) common(m *MetadataUpdate) CommonUpdate {
	return CommonUpdate{m, &u.Conditions, &u.ObservedGeneration}
}
