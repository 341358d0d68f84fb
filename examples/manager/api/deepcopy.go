package api

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (m *Machine) DeepCopyObject() runtime.Object { return m.DeepCopy() }

// DeepCopy returns a copy that shares nothing with m; nil of nil.
func (m *Machine) DeepCopy() *Machine {
	if m == nil {
		return nil
	}
	c := new(Machine)
	m.DeepCopyInto(c)
	return c
}

// DeepCopyInto makes out a copy of m that shares nothing with it.
func (m *Machine) DeepCopyInto(out *Machine) {
	*out = *m
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec = m.Spec.copied()
	out.Status = m.Status.copied()
}

// DeepCopyObject implements runtime.Object.
func (l *MachineList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy returns a copy that shares nothing with l; nil of nil.
func (l *MachineList) DeepCopy() *MachineList {
	if l == nil {
		return nil
	}
	c := &MachineList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	if l.Items != nil {
		c.Items = make([]Machine, len(l.Items))
	}
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&c.Items[i])
	}
	return c
}

func (s MachineSpec) copied() MachineSpec {
	s.Bootstrap.DataSecretName = copied(s.Bootstrap.DataSecretName)
	s.MinReadySeconds = copied(s.MinReadySeconds)
	s.ReadinessGates = slices.Clone(s.ReadinessGates)
	s.Deletion.NodeDrainTimeoutSeconds = copied(s.Deletion.NodeDrainTimeoutSeconds)
	s.Deletion.NodeVolumeDetachTimeoutSeconds = copied(s.Deletion.NodeVolumeDetachTimeoutSeconds)
	s.Deletion.NodeDeletionTimeoutSeconds = copied(s.Deletion.NodeDeletionTimeoutSeconds)
	s.Taints = slices.Clone(s.Taints)
	return s
}

func (s MachineStatus) copied() MachineStatus {
	s.Conditions = slices.Clone(s.Conditions)
	s.Initialization.InfrastructureProvisioned = copied(s.Initialization.InfrastructureProvisioned)
	s.Initialization.BootstrapDataSecretCreated = copied(s.Initialization.BootstrapDataSecretCreated)
	s.Addresses = slices.Clone(s.Addresses)
	s.Deprecated.V1Beta1.FailureReason = copied(s.Deprecated.V1Beta1.FailureReason)
	s.Deprecated.V1Beta1.FailureMessage = copied(s.Deprecated.V1Beta1.FailureMessage)
	return s
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}
