package clusterapi

import (
	"time"

	"github.com/machinist-dev/machinist/contract"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// readMachine reads the fields of the v1beta2 layout. The start times of other stages are in annotations, which contract reads.
func readMachine(m *clusterv1.Machine, into *contract.MachineState) (err error) {
	before := *into
	*into = contract.MachineState{}
	into.Metadata.From(m)
	if err := readSpec(&m.Spec, &before.MachineSpec, &into.MachineSpec, "spec"); err != nil {
		return err
	}
	s := &m.Status
	into.Phase, into.FailureDomain, into.ObservedGeneration = s.Phase, s.FailureDomain, s.ObservedGeneration
	into.Node = contract.NodeRef{Name: s.NodeRef.Name, UID: types.UID(m.Annotations[contract.NodeUIDAnnotation])}
	into.BootstrapReady = contract.SomeAt(s.Initialization.BootstrapDataSecretCreated)
	into.InfrastructureReady = contract.SomeAt(s.Initialization.InfrastructureProvisioned)
	into.Addresses = contract.Converted(s.Addresses, before.Addresses, func(a clusterv1.MachineAddress) contract.Address {
		return contract.Address{Type: string(a.Type), Address: a.Address}
	})
	for i, a := range into.Addresses {
		if a.Type == "" {
			return missing("status", "addresses", i, "type")
		}
		if a.Address == "" {
			return missing("status", "addresses", i, "address")
		}
	}
	into.LastUpdated, into.CertificatesExpire = s.LastUpdated.UTC(), s.CertificatesExpiryDate.UTC()
	if s.Deletion != nil {
		into.DrainStarted, into.VolumeDetachStarted = s.Deletion.NodeDrainStartTime.UTC(), s.Deletion.WaitForNodeVolumeDetachStartTime.UTC()
	}
	if s.Deprecated != nil && s.Deprecated.V1Beta1 != nil {
		into.FailureReason, into.FailureMessage = textAt(s.Deprecated.V1Beta1.FailureReason), textAt(s.Deprecated.V1Beta1.FailureMessage)
	}
	into.Conditions, err = conditions(s.Conditions, before.Conditions)
	return err
}

func writeMachine(m *clusterv1.Machine, u contract.MachineUpdate) error {
	annotated(u.MetadataUpdate, contract.NodeUIDAnnotation,
		mapped(u.Node, func(n contract.NodeRef) string { return string(n.UID) })).ApplyTo(m)
	u.ProviderID.ApplyTo(&m.Spec.ProviderID)
	u.DataSecretName.ApplyToPointer(&m.Spec.Bootstrap.DataSecretName)
	u.WantedFailureDomain.ApplyTo(&m.Spec.FailureDomain)
	s := &m.Status
	u.Phase.ApplyTo(&s.Phase)
	mapped(u.Node, func(n contract.NodeRef) string { return n.Name }).ApplyTo(&s.NodeRef.Name)
	u.BootstrapReady.ApplyToPointer(&s.Initialization.BootstrapDataSecretCreated)
	u.InfrastructureReady.ApplyToPointer(&s.Initialization.InfrastructureProvisioned)
	if addresses, set := u.Addresses.Value(); set || u.Addresses.Clears() {
		s.Addresses = contract.Converted(addresses, nil, func(a contract.Address) clusterv1.MachineAddress {
			return clusterv1.MachineAddress{Type: clusterv1.MachineAddressType(a.Type), Address: a.Address}
		})
	}
	u.FailureDomain.ApplyTo(&s.FailureDomain)
	u.ObservedGeneration.ApplyTo(&s.ObservedGeneration)
	setTime(u.LastUpdated, &s.LastUpdated)
	setTime(u.CertificatesExpire, &s.CertificatesExpiryDate)
	writeDeletion(s, u.DrainStarted, u.VolumeDetachStarted)
	writeFailure(s, u.FailureReason, u.FailureMessage)
	setConditions(&s.Conditions, u.Conditions, u.RemoveConditions)
	return nil
}

// writeDeletion writes to a copy of the pointee, because an object in a cache may share it.
func writeDeletion(s *clusterv1.MachineStatus, drain, volumes contract.Change[time.Time]) {
	if drain.Keeps() && volumes.Keeps() {
		return
	}
	deletion := valueAt(s.Deletion)
	setTime(drain, &deletion.NodeDrainStartTime)
	setTime(volumes, &deletion.WaitForNodeVolumeDetachStartTime)
	s.Deletion = &deletion
	if deletion.NodeDrainStartTime.IsZero() && deletion.WaitForNodeVolumeDetachStartTime.IsZero() {
		s.Deletion = nil
	}
}

func writeFailure(s *clusterv1.MachineStatus, reason, message contract.Change[string]) {
	if reason.Keeps() && message.Keeps() {
		return
	}
	old := valueAt(valueAt(s.Deprecated).V1Beta1)
	setText(reason, &old.FailureReason)
	setText(message, &old.FailureMessage)
	s.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &old}
	if old.FailureReason == nil && old.FailureMessage == nil && old.Conditions == nil {
		s.Deprecated = nil
	}
}

// readSpec reads the spec of a Machine, or of the template of a set; place is its path. It does not change before.
func readSpec(s *clusterv1.MachineSpec, before, into *contract.MachineSpec, place string) error {
	into.ClusterName, into.ProviderID, into.Version, into.WantedFailureDomain = s.ClusterName, s.ProviderID, s.Version, s.FailureDomain
	into.Bootstrap, into.Infrastructure = refOf(s.Bootstrap.ConfigRef), refOf(s.InfrastructureRef)
	into.DataSecretName = contract.SomeAt(s.Bootstrap.DataSecretName)
	into.NodeDrainTimeout = seconds(s.Deletion.NodeDrainTimeoutSeconds)
	into.NodeVolumeDetachTimeout = seconds(s.Deletion.NodeVolumeDetachTimeoutSeconds)
	into.NodeDeletionTimeout = seconds(s.Deletion.NodeDeletionTimeoutSeconds)
	into.MinReady = seconds(s.MinReadySeconds)
	type gate = clusterv1.MachineReadinessGate
	into.ReadinessGates = contract.Converted(s.ReadinessGates, before.ReadinessGates, func(g gate) contract.ReadinessGate {
		return contract.ReadinessGate{ConditionType: g.ConditionType, Negative: g.Polarity == clusterv1.NegativePolarityCondition}
	})
	into.Taints = contract.Converted(s.Taints, before.Taints, func(t clusterv1.MachineTaint) contract.Taint {
		return contract.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect), Propagation: string(t.Propagation)}
	})
	for i := range into.ReadinessGates {
		if into.ReadinessGates[i].ConditionType == "" {
			return missing(place, "readinessGates", i, "conditionType")
		}
	}
	for i := range into.Taints {
		if into.Taints[i].Key == "" {
			return missing(place, "taints", i, "key")
		}
		if into.Taints[i].Effect == "" {
			return missing(place, "taints", i, "effect")
		}
	}
	return nil
}

func refOf(r clusterv1.ContractVersionedObjectReference) contract.Ref {
	return contract.Ref{Group: r.APIGroup, Kind: r.Kind, Name: r.Name}
}

func refTo(r contract.Ref) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: r.Group, Kind: r.Kind, Name: r.Name}
}
