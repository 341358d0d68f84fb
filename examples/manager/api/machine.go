package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion returns the group and version of Machine.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
}

// AddToScheme adds Machine and MachineList to a scheme. The error is always nil.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &Machine{}, &MachineList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}

// Machine is a machine that becomes a Node. Absent fields are omitted when it is encoded; if absent differs from zero,
// the field is a pointer.
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   MachineSpec   `json:"spec,omitzero"`
	Status MachineStatus `json:"status,omitzero"`
}

// MachineList is a list of Machines.
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Machine `json:"items"`
}

// MachineSpec is the wanted state.
type MachineSpec struct {
	// ClusterName is the Cluster that the Machine belongs to.
	ClusterName string `json:"clusterName,omitempty"`
	// Bootstrap is the source of the bootstrap data.
	Bootstrap Bootstrap `json:"bootstrap,omitzero"`
	// InfrastructureRef is the provider's object.
	InfrastructureRef Reference `json:"infrastructureRef,omitzero"`
	// Version is the Kubernetes version, with its leading v.
	Version string `json:"version,omitempty"`
	// ProviderID is the provider's ID of the machine, which the Node has too.
	ProviderID string `json:"providerID,omitempty"`
	// FailureDomain is where the machine must be created.
	FailureDomain string `json:"failureDomain,omitempty"`
	// MinReadySeconds is how long the Node must be ready for the Machine to be available.
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
	// ReadinessGates are additional conditions that a Machine must have to be Ready.
	ReadinessGates []ReadinessGate `json:"readinessGates,omitempty"`
	// Deletion limits the stages of a deletion.
	Deletion DeletionSpec `json:"deletion,omitzero"`
	// Taints are wanted on the Node.
	Taints []Taint `json:"taints,omitempty"`
}

// Bootstrap is the source of the bootstrap data.
type Bootstrap struct {
	// ConfigRef is the bootstrap provider's object.
	ConfigRef Reference `json:"configRef,omitzero"`
	// DataSecretName is the Secret with the data, nil until it exists; the empty name differs from nil.
	DataSecretName *string `json:"dataSecretName,omitempty"`
}

// Reference is an object in the same namespace.
type Reference struct {
	APIGroup string `json:"apiGroup,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Name     string `json:"name,omitempty"`
}

// ReadinessGate is an additional condition that a Machine must have to be Ready.
type ReadinessGate struct {
	ConditionType string `json:"conditionType,omitempty"`
	// Polarity is Positive or Negative; empty counts as Positive.
	Polarity string `json:"polarity,omitempty"`
}

// DeletionSpec limits the stages of a deletion, in seconds; 0 is no limit.
type DeletionSpec struct {
	NodeDrainTimeoutSeconds        *int32 `json:"nodeDrainTimeoutSeconds,omitempty"`
	NodeVolumeDetachTimeoutSeconds *int32 `json:"nodeVolumeDetachTimeoutSeconds,omitempty"`
	NodeDeletionTimeoutSeconds     *int32 `json:"nodeDeletionTimeoutSeconds,omitempty"`
}

// Taint is wanted on the Node.
type Taint struct {
	Key    string `json:"key,omitempty"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect,omitempty"`
	// Propagation is Always or OnInitialization.
	Propagation string `json:"propagation,omitempty"`
}

// MachineStatus is the observed state. In a patch an empty list differs from an absent one, so lists are kept as they
// are.
type MachineStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitzero"`
	// Initialization tells which stages are complete.
	Initialization Initialization `json:"initialization,omitzero"`
	// NodeRef is the matched Node.
	NodeRef NodeReference `json:"nodeRef,omitzero"`
	// LastUpdated is when the phase changed.
	LastUpdated metav1.Time `json:"lastUpdated,omitzero"`
	// FailureDomain is where the machine is.
	FailureDomain string           `json:"failureDomain,omitempty"`
	Addresses     []MachineAddress `json:"addresses,omitzero"`
	Phase         string           `json:"phase,omitempty"`
	// CertificatesExpiryDate is when the certificates of a control plane machine expire.
	CertificatesExpiryDate metav1.Time      `json:"certificatesExpiryDate,omitzero"`
	ObservedGeneration     int64            `json:"observedGeneration,omitempty"`
	Deletion               DeletionStatus   `json:"deletion,omitzero"`
	Deprecated             DeprecatedStatus `json:"deprecated,omitzero"`
}

// Initialization tells which stages are complete; nil is not yet.
type Initialization struct {
	InfrastructureProvisioned  *bool `json:"infrastructureProvisioned,omitempty"`
	BootstrapDataSecretCreated *bool `json:"bootstrapDataSecretCreated,omitempty"`
}

// NodeReference names a Node.
type NodeReference struct {
	Name string `json:"name,omitempty"`
}

// MachineAddress is one address of a machine.
type MachineAddress struct {
	// Type is Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS.
	Type    string `json:"type"`
	Address string `json:"address"`
}

// DeletionStatus has the start times of deletion stages; zero is not yet.
type DeletionStatus struct {
	NodeDrainStartTime               metav1.Time `json:"nodeDrainStartTime,omitzero"`
	WaitForNodeVolumeDetachStartTime metav1.Time `json:"waitForNodeVolumeDetachStartTime,omitzero"`
}

// DeprecatedStatus has fields that Cluster API will remove.
type DeprecatedStatus struct {
	V1Beta1 V1Beta1Status `json:"v1beta1,omitzero"`
}

// V1Beta1Status has a terminal failure.
type V1Beta1Status struct {
	FailureReason  *string `json:"failureReason,omitempty"`
	FailureMessage *string `json:"failureMessage,omitempty"`
}

// ShareTexts implements machine.TextSharer.
func (m *Machine) ShareTexts(share func(string) string) {
	texts := []*string{
		&m.Kind, &m.APIVersion, &m.Namespace, &m.Spec.ClusterName, &m.Spec.Bootstrap.ConfigRef.APIGroup, &m.Spec.Bootstrap.ConfigRef.Kind,
		&m.Spec.InfrastructureRef.APIGroup, &m.Spec.InfrastructureRef.Kind, &m.Spec.Version, &m.Spec.FailureDomain, &m.Status.FailureDomain,
		&m.Status.Phase,
	}
	for i := range m.Finalizers {
		texts = append(texts, &m.Finalizers[i])
	}
	for i := range m.OwnerReferences {
		texts = append(texts, &m.OwnerReferences[i].APIVersion, &m.OwnerReferences[i].Kind)
	}
	for i := range m.Status.Addresses {
		texts = append(texts, &m.Status.Addresses[i].Type)
	}
	for i := range m.Status.Conditions {
		c := &m.Status.Conditions[i]
		texts = append(texts, &c.Type, (*string)(&c.Status), &c.Reason)
	}
	for _, text := range texts {
		*text = share(*text)
	}
	for _, names := range []map[string]string{m.Labels, m.Annotations} {
		for name, value := range names {
			names[share(name)] = value
		}
	}
}
