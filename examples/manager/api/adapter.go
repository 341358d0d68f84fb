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
	into.DrainedNode = types.UID(m.Annotations[contract.DrainedAnnotation])
	into.VolumesDetachedNode = types.UID(m.Annotations[contract.VolumesDetachedAnnotation])
	into.FailureReason = contract.SomeAt(s.Deprecated.V1Beta1.FailureReason).Or("")
	into.FailureMessage = contract.SomeAt(s.Deprecated.V1Beta1.FailureMessage).Or("")
	var err error
	into.PreTerminateStarted, err = annotatedTime(m, contract.PreTerminateStartedAnnotation)
	return err
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

// annotatedTime reads a time that has no field in the schema from an annotation.
func annotatedTime(m *Machine, key string) (time.Time, error) {
	text := m.Annotations[key]
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, &contract.FieldError{Path: contract.AtAnnotation[time.Time](key).Path(), Want: "RFC 3339 time",
			Got: "unreadable text"}
	}
	return at.UTC(), nil
}

func write(m *Machine, u contract.MachineUpdate) error {
	annotate(&u)
	u.MetadataUpdate.ApplyTo(m)
	u.ProviderID.ApplyTo(&m.Spec.ProviderID)
	u.DataSecretName.ApplyToPointer(&m.Spec.Bootstrap.DataSecretName)
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

// annotate turns changes of values without a field into changes of annotations. It does not change the caller's map.
func annotate(u *contract.MachineUpdate) {
	uid := func(uid types.UID) string { return string(uid) }
	own := false
	put := func(key string, c contract.Change[string]) {
		if c.Keeps() {
			return
		}
		if !own {
			own, u.Annotations = true, maps.Clone(u.Annotations)
		}
		if u.Annotations == nil {
			u.Annotations = map[string]contract.Change[string]{}
		}
		u.Annotations[key] = c
	}
	put(contract.NodeUIDAnnotation, mapped(u.Node, func(n contract.NodeRef) string { return string(n.UID) }))
	put(contract.DrainedAnnotation, mapped(u.DrainedNode, uid))
	put(contract.VolumesDetachedAnnotation, mapped(u.VolumesDetachedNode, uid))
	put(contract.PreTerminateStartedAnnotation, mapped(u.PreTerminateStarted, rfc3339))
}

// setTime keeps whole seconds, as an encoded object does.
func setTime(c contract.Change[time.Time], into *metav1.Time) {
	if at, set := c.Value(); set || c.Clears() {
		*into = metav1.NewTime(at.UTC().Truncate(time.Second))
	}
}

func rfc3339(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
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
