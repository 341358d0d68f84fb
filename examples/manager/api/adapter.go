package api

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

func read(m *Machine, into *contract.MachineState) error {
	into.Metadata.From(m)
	readSpec(&m.Spec, &into.MachineSpec)
	s := &m.Status
	into.Phase = s.Phase
	into.Node = contract.NodeRef{Name: s.NodeRef.Name, UID: types.UID(m.Annotations[contract.NodeUIDAnnotation])}
	into.BootstrapReady = contract.SomeAt(s.Initialization.BootstrapDataSecretCreated)
	into.InfrastructureReady = contract.SomeAt(s.Initialization.InfrastructureProvisioned)
	into.Addresses = converted(s.Addresses, func(a MachineAddress) contract.Address { return contract.Address(a) })
	into.FailureDomain, into.Conditions, into.ObservedGeneration = s.FailureDomain, s.Conditions, s.ObservedGeneration
	into.LastUpdated, into.CertificatesExpire = s.LastUpdated.UTC(), s.CertificatesExpiryDate.UTC()
	into.DrainStarted, into.VolumeDetachStarted = s.Deletion.NodeDrainStartTime.UTC(), s.Deletion.WaitForNodeVolumeDetachStartTime.UTC()
	into.FailureReason = contract.SomeAt(s.Deprecated.V1Beta1.FailureReason).Or("")
	into.FailureMessage = contract.SomeAt(s.Deprecated.V1Beta1.FailureMessage).Or("")
	return nil
}

func readSpec(s *MachineSpec, into *contract.MachineSpec) {
	into.ClusterName, into.ProviderID, into.Version, into.WantedFailureDomain = s.ClusterName, s.ProviderID, s.Version, s.FailureDomain
	into.Bootstrap, into.Infrastructure = s.Bootstrap.ConfigRef.ref(), s.InfrastructureRef.ref()
	into.DataSecretName = contract.SomeAt(s.Bootstrap.DataSecretName)
	into.NodeDrainTimeout = seconds(s.Deletion.NodeDrainTimeoutSeconds)
	into.NodeVolumeDetachTimeout = seconds(s.Deletion.NodeVolumeDetachTimeoutSeconds)
	into.NodeDeletionTimeout = seconds(s.Deletion.NodeDeletionTimeoutSeconds)
	into.MinReady = seconds(s.MinReadySeconds)
	into.ReadinessGates = converted(s.ReadinessGates, func(g ReadinessGate) contract.ReadinessGate {
		return contract.ReadinessGate{ConditionType: g.ConditionType, Negative: g.Polarity == "Negative"}
	})
	into.Taints = converted(s.Taints, func(t Taint) contract.Taint { return contract.Taint(t) })
}

func (r Reference) ref() contract.Ref {
	return contract.Ref{Group: r.APIGroup, Kind: r.Kind, Name: r.Name}
}

func seconds(n *int32) contract.Opt[time.Duration] {
	if n == nil {
		return contract.Opt[time.Duration]{}
	}
	return contract.Some(time.Duration(*n) * time.Second)
}

func converted[A, B any](list []A, convert func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	to := make([]B, 0, len(list))
	for _, item := range list {
		to = append(to, convert(item))
	}
	return to
}

func write(m *Machine, u contract.MachineUpdate) error {
	annotate(&u)
	u.MetadataUpdate.ApplyTo(m)
	u.ProviderID.ApplyTo(&m.Spec.ProviderID)
	u.DataSecretName.ApplyToPointer(&m.Spec.Bootstrap.DataSecretName)
	u.WantedFailureDomain.ApplyTo(&m.Spec.FailureDomain)
	s := &m.Status
	u.Phase.ApplyTo(&s.Phase)
	if node, set := u.Node.Value(); set || u.Node.Clears() {
		s.NodeRef.Name = node.Name
	}
	u.BootstrapReady.ApplyToPointer(&s.Initialization.BootstrapDataSecretCreated)
	u.InfrastructureReady.ApplyToPointer(&s.Initialization.InfrastructureProvisioned)
	if addresses, set := u.Addresses.Value(); set || u.Addresses.Clears() {
		s.Addresses = converted(addresses, func(a contract.Address) MachineAddress { return MachineAddress(a) })
	}
	u.FailureDomain.ApplyTo(&s.FailureDomain)
	u.ObservedGeneration.ApplyTo(&s.ObservedGeneration)
	setTime(u.LastUpdated, &s.LastUpdated)
	setTime(u.DrainStarted, &s.Deletion.NodeDrainStartTime)
	setTime(u.VolumeDetachStarted, &s.Deletion.WaitForNodeVolumeDetachStartTime)
	setTime(u.CertificatesExpire, &s.CertificatesExpiryDate)
	orClear(u.FailureReason).ApplyToPointer(&s.Deprecated.V1Beta1.FailureReason)
	orClear(u.FailureMessage).ApplyToPointer(&s.Deprecated.V1Beta1.FailureMessage)
	if len(u.Conditions) > 0 || len(u.RemoveConditions) > 0 {
		updated := contract.UpdatedConditions(s.Conditions, u.Conditions, u.RemoveConditions)
		if updated == nil && s.Conditions != nil {
			updated = []metav1.Condition{} // the last entry is removed, but not the list
		}
		s.Conditions = updated
	}
	return nil
}

// annotate puts the UID of the Node, which has no field, into an annotation. It does not change the caller's map.
func annotate(u *contract.MachineUpdate) {
	if u.Node.Keeps() {
		return
	}
	u.Annotations = maps.Clone(u.Annotations)
	if u.Annotations == nil {
		u.Annotations = map[string]contract.Change[string]{}
	}
	u.Annotations[contract.NodeUIDAnnotation] = mapped(u.Node, func(n contract.NodeRef) string { return string(n.UID) })
}

// setTime keeps whole seconds, as an encoded object does.
func setTime(c contract.Change[time.Time], into *metav1.Time) {
	if at, set := c.Value(); set || c.Clears() {
		*into = metav1.NewTime(at.UTC().Truncate(time.Second))
	}
}

// mapped returns the change of an annotation; the empty text removes it.
func mapped[T any](c contract.Change[T], text func(T) string) contract.Change[string] {
	v, set := c.Value()
	switch {
	case set:
		return orClear(contract.SetTo(text(v)))
	case c.Clears():
		return contract.Cleared[string]()
	default:
		return contract.Change[string]{}
	}
}

// orClear turns a change to the empty text into a removal, because the schema rejects the empty text.
func orClear(c contract.Change[string]) contract.Change[string] {
	if text, set := c.Value(); set && text == "" {
		return contract.Cleared[string]()
	}
	return c
}
