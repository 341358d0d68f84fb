package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MachinePool is a group of machines that the provider scales as one. It has the fields of Cluster API's, and a selector for its scale
// subresource, which the HorizontalPodAutoscaler needs.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=machinepools,shortName=mp;mmp,scope=Namespaced,categories=cluster-api;machinist
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Up-to-date",type=integer,JSONPath=`.status.upToDateReplicas`
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.template.spec.version`
type MachinePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the wanted state.
	// +required
	Spec MachinePoolSpec `json:"spec,omitzero"`
	// Status is the observed state. Controllers write it.
	Status MachinePoolStatus `json:"status,omitzero"`
}

// MachinePoolList is a list of MachinePools.
// +kubebuilder:object:root=true
type MachinePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []MachinePool `json:"items"`
}

// MachinePoolSpec is the wanted state.
// +kubebuilder:validation:XValidation:rule="has(self.clusterName) == has(oldSelf.clusterName) && (!has(self.clusterName) || self.clusterName == oldSelf.clusterName)",message="clusterName must not change: a MachinePool stays in its cluster"
// +kubebuilder:validation:XValidation:rule="has(self.clusterName) == has(self.template.spec.clusterName) && (!has(self.clusterName) || self.clusterName == self.template.spec.clusterName)",message="clusterName and template.spec.clusterName must be equal"
// +kubebuilder:validation:XValidation:rule="has(self.template.spec.infrastructureRef)",message="give template.spec.infrastructureRef: the provider's pool makes the instances"
type MachinePoolSpec struct {
	// ClusterName is the cluster that the pool belongs to. A manager whose Nodes are in its own cluster needs none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`
	// Replicas is the wanted number of instances. Leave it out where an autoscaler decides: then what there is stays, and a new pool begins
	// with the annotation cluster-api-autoscaler-node-group-min-size, or with 1.
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// Template is what the instances are made of.
	// +required
	Template MachineTemplate `json:"template,omitzero"`
	// ProviderIDList has the provider IDs of the instances, as the infrastructure reports them. The controller writes it.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	ProviderIDList []string `json:"providerIDList,omitempty"`
	// FailureDomains are those of the instances. Default: any.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`
}

// MachinePoolStatus is the observed state.
// +kubebuilder:validation:MinProperties=1
type MachinePoolStatus struct {
	// Conditions are the observations of the pool.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitzero"`
	// Initialization has the stages that are complete.
	Initialization Initialization `json:"initialization,omitzero"`
	// NodeRefs are the Nodes of the instances.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	NodeRefs []PoolNode `json:"nodeRefs,omitempty"`
	Counts   `json:",inline"`
	// Phase sums the pool up for people. Programs read conditions.
	// +kubebuilder:validation:Enum=Pending;Provisioning;Provisioned;Running;ScalingUp;ScalingDown;Scaling;Deleting;Failed;Unknown
	Phase string `json:"phase,omitempty"`
	// ObservedGeneration is the generation that the status was made of.
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Deprecated is what Cluster API will remove.
	Deprecated MachinePoolDeprecated `json:"deprecated,omitzero"`
}

// PoolNode names a Node of an instance.
// +structType=atomic
type PoolNode struct {
	// APIVersion is v1.
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind is Node.
	Kind string `json:"kind,omitempty"`
	// Name is the name of the Node.
	Name string `json:"name,omitempty"`
	// UID is the UID of the Node.
	UID string `json:"uid,omitempty"`
}

// MachinePoolDeprecated has fields that Cluster API will remove.
type MachinePoolDeprecated struct {
	// V1Beta1 is from v1beta1.
	V1Beta1 MachinePoolV1Beta1 `json:"v1beta1,omitzero"`
}

// MachinePoolV1Beta1 is the status as it was in v1beta1.
type MachinePoolV1Beta1 struct {
	CountsV1Beta1 `json:",inline"`
	V1Beta1Status `json:",inline"`
	// UnavailableReplicas is how many instances are missing or have no Node that is available.
	UnavailableReplicas *int32 `json:"unavailableReplicas,omitempty"`
}
