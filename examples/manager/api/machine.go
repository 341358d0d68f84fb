package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Machine is a machine that becomes a Node. Absent fields are omitted when it is encoded; if absent differs from zero,
// the field is a pointer.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=machines,shortName=ma;mma,scope=Namespaced,categories=cluster-api;machinist
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="Node Name",type=string,JSONPath=`.status.nodeRef.name`
// +kubebuilder:printcolumn:name="Provider ID",type=string,JSONPath=`.spec.providerID`,priority=10
// +kubebuilder:printcolumn:name="Failure domain",type=string,JSONPath=`.status.failureDomain`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Up-to-date",type=string,JSONPath=`.status.conditions[?(@.type=="UpToDate")].status`
// +kubebuilder:printcolumn:name="Internal-IP",type=string,JSONPath=`.status.addresses[?(@.type=="InternalIP")].address`,priority=10
// +kubebuilder:printcolumn:name="External-IP",type=string,JSONPath=`.status.addresses[?(@.type=="ExternalIP")].address`,priority=10
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the wanted state.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.clusterName) == has(oldSelf.clusterName) && (!has(self.clusterName) || self.clusterName == oldSelf.clusterName)",message="clusterName must not change: a Machine stays in its cluster"
	Spec MachineSpec `json:"spec,omitzero"`
	// Status is the observed state. Controllers write it.
	Status MachineStatus `json:"status,omitzero"`
}

// MachineList is a list of Machines.
// +kubebuilder:object:root=true
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// Items are pointers, so that a list from a cache copies no Machine.
	Items []*Machine `json:"items"`
}

// MachineSpec is the wanted state.
type MachineSpec struct {
	// ClusterName is the cluster that the Machine belongs to. A manager whose Nodes are in its own cluster needs none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`
	// Bootstrap is the source of the bootstrap data. A driver that needs none has none.
	Bootstrap Bootstrap `json:"bootstrap,omitzero"`
	// InfrastructureRef is the provider's object. A Machine of a driver has none.
	InfrastructureRef Reference `json:"infrastructureRef,omitzero"`
	// Version is the Kubernetes version, with its leading v.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^v(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)([-0-9a-zA-Z_.+]*)$')",message="give a Kubernetes version with its leading v, such as v1.36.3"
	Version string `json:"version,omitempty"`
	// ProviderID is the provider's ID of the machine, which the Node has too.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`
	// FailureDomain is where the machine must be created.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`
	// MinReadySeconds is how long the Node must be ready for the Machine to be available.
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
	// ReadinessGates are additional conditions that a Machine must have to be Ready.
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []ReadinessGate `json:"readinessGates,omitempty"`
	// Deletion limits the stages of a deletion.
	// +kubebuilder:default={nodeDeletionTimeoutSeconds: 10}
	Deletion DeletionSpec `json:"deletion,omitzero"`
	// Taints are wanted on the Node.
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []Taint `json:"taints,omitempty"`
}

// Bootstrap is the source of the bootstrap data.
// +kubebuilder:validation:XValidation:rule="has(self.configRef) || has(self.dataSecretName)",message="give configRef or dataSecretName, or leave bootstrap out"
type Bootstrap struct {
	// ConfigRef is the bootstrap provider's object.
	ConfigRef Reference `json:"configRef,omitzero"`
	// DataSecretName is the Secret with the data, nil until it exists; the empty name differs from nil.
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=253
	DataSecretName *string `json:"dataSecretName,omitempty"`
}

// Reference is an object in the same namespace.
type Reference struct {
	// APIGroup is the group of the object's kind.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	APIGroup string `json:"apiGroup,omitempty"`
	// Kind is the object's kind.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind,omitempty"`
	// Name is the object's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`
}

// ReadinessGate is an additional condition that a Machine must have to be Ready.
type ReadinessGate struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	ConditionType string `json:"conditionType,omitempty"`
	// Polarity is Positive or Negative; empty counts as Positive.
	// +kubebuilder:validation:Enum=Positive;Negative
	Polarity string `json:"polarity,omitempty"`
}

// DeletionSpec limits the stages of a deletion, in seconds; 0 is no limit.
// +kubebuilder:validation:MinProperties=1
type DeletionSpec struct {
	// NodeDrainTimeoutSeconds is how long the drain of the Node may take. Default: no limit.
	// +kubebuilder:validation:Minimum=0
	NodeDrainTimeoutSeconds *int32 `json:"nodeDrainTimeoutSeconds,omitempty"`
	// NodeVolumeDetachTimeoutSeconds is how long volumes may take to be detached. Default: no limit.
	// +kubebuilder:validation:Minimum=0
	NodeVolumeDetachTimeoutSeconds *int32 `json:"nodeVolumeDetachTimeoutSeconds,omitempty"`
	// NodeDeletionTimeoutSeconds is how long the deletion of the Node is tried.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=10
	NodeDeletionTimeoutSeconds *int32 `json:"nodeDeletionTimeoutSeconds,omitempty"`
}

// Taint is wanted on the Node.
type Taint struct {
	// Key is the key of the taint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	Key string `json:"key,omitempty"`
	// Value is the value of the taint.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
	Value string `json:"value,omitempty"`
	// Effect is what the taint does to pods.
	// +required
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect string `json:"effect,omitempty"`
	// Propagation is Always, or OnInitialization for a taint that is set once.
	// +required
	// +kubebuilder:validation:Enum=Always;OnInitialization
	Propagation string `json:"propagation,omitempty"`
}

// MachineStatus is the observed state. In a patch an empty list differs from an absent one, so lists are kept as they
// are.
// +kubebuilder:validation:MinProperties=1
type MachineStatus struct {
	// Conditions are the observations of the Machine.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitzero"`
	// Initialization has the stages that are complete.
	Initialization Initialization `json:"initialization,omitzero"`
	// NodeRef is the matched Node.
	NodeRef NodeReference `json:"nodeRef,omitzero"`
	// LastUpdated is when the phase changed.
	LastUpdated metav1.Time `json:"lastUpdated,omitzero"`
	// FailureDomain is where the machine is.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`
	// Addresses are those of the machine.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Addresses []MachineAddress `json:"addresses,omitzero"`
	// Phase sums the Machine up for people. Programs read conditions.
	// +kubebuilder:validation:Enum=Pending;Provisioning;Provisioned;Running;Updating;Deleting;Deleted;Failed;Unknown
	Phase string `json:"phase,omitempty"`
	// CertificatesExpiryDate is when the certificates of a control plane machine expire.
	CertificatesExpiryDate metav1.Time `json:"certificatesExpiryDate,omitzero"`
	// ObservedGeneration is the generation that the status was made of.
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Deletion has the times at which stages of the deletion began.
	Deletion DeletionStatus `json:"deletion,omitzero"`
	// Deprecated is what Cluster API will remove.
	Deprecated DeprecatedStatus `json:"deprecated,omitzero"`
}

// Initialization has the stages that are complete; nil is not yet.
// +kubebuilder:validation:MinProperties=1
type Initialization struct {
	// InfrastructureProvisioned is true once the provider has made the machine.
	InfrastructureProvisioned *bool `json:"infrastructureProvisioned,omitempty"`
	// BootstrapDataSecretCreated is true once there is bootstrap data.
	BootstrapDataSecretCreated *bool `json:"bootstrapDataSecretCreated,omitempty"`
}

// NodeReference names a Node.
type NodeReference struct {
	// Name is the name of the Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`
}

// MachineAddress is one address of a machine.
type MachineAddress struct {
	// Type is Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS.
	// +required
	// +kubebuilder:validation:Enum=Hostname;ExternalIP;InternalIP;ExternalDNS;InternalDNS
	Type string `json:"type"`
	// Address is the address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Address string `json:"address"`
}

// DeletionStatus has the start times of deletion stages; zero is not yet.
type DeletionStatus struct {
	// NodeDrainStartTime is when the drain of the Node began.
	NodeDrainStartTime metav1.Time `json:"nodeDrainStartTime,omitzero"`
	// WaitForNodeVolumeDetachStartTime is when the wait for volumes began.
	WaitForNodeVolumeDetachStartTime metav1.Time `json:"waitForNodeVolumeDetachStartTime,omitzero"`
}

// DeprecatedStatus has fields that Cluster API will remove.
type DeprecatedStatus struct {
	// V1Beta1 is from v1beta1.
	V1Beta1 V1Beta1Status `json:"v1beta1,omitzero"`
}

// V1Beta1Status has a terminal failure.
type V1Beta1Status struct {
	// FailureReason names a failure that does not go away by itself.
	FailureReason *string `json:"failureReason,omitempty"`
	// FailureMessage describes that failure.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`
}
