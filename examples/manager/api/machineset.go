package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MachineSet keeps a number of equal Machines.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=machinesets,shortName=ms;mms,scope=Namespaced,categories=cluster-api;machinist
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
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.template.spec.version`
type MachineSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the wanted state.
	// +required
	Spec MachineSetSpec `json:"spec,omitzero"`
	// Status is the observed state. Controllers write it.
	Status MachineSetStatus `json:"status,omitzero"`
}

// MachineSetList is a list of MachineSets.
// +kubebuilder:object:root=true
type MachineSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []MachineSet `json:"items"`
}

// MachineSetSpec is the wanted state.
// +kubebuilder:validation:XValidation:rule="has(self.clusterName) == has(oldSelf.clusterName) && (!has(self.clusterName) || self.clusterName == oldSelf.clusterName)",message="clusterName must not change: a MachineSet stays in its cluster"
// +kubebuilder:validation:XValidation:rule="has(self.clusterName) == has(self.template.spec.clusterName) && (!has(self.clusterName) || self.clusterName == self.template.spec.clusterName)",message="clusterName and template.spec.clusterName must be equal"
// +kubebuilder:validation:XValidation:rule="!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, has(self.template.metadata) && has(self.template.metadata.labels) && k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])",message="template.metadata.labels must have all labels of selector.matchLabels"
type MachineSetSpec struct {
	// ClusterName is the cluster that the MachineSet belongs to. A manager whose Nodes are in its own cluster needs none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`
	// Replicas is the wanted number of Machines. Leave it out where an autoscaler decides: then what there is stays, and a new object begins
	// with the annotation cluster-api-autoscaler-node-group-min-size, or with 1.
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector selects the Machines of the set.
	// +required
	Selector LabelSelector `json:"selector,omitzero"`
	// Template is what new Machines are made of.
	// +required
	Template MachineTemplate `json:"template,omitzero"`
	// MachineNaming has the template of the names of new Machines.
	MachineNaming MachineNaming `json:"machineNaming,omitzero"`
	// Deletion selects the Machines that are deleted first.
	// +kubebuilder:default={order: Random}
	Deletion MachinesDeletion `json:"deletion,omitzero"`
}

// MachineSetStatus is the observed state.
// +kubebuilder:validation:MinProperties=1
type MachineSetStatus struct {
	// Conditions are the observations of the MachineSet.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitzero"`
	Counts     `json:",inline"`
	// ObservedGeneration is the generation that the status was made of.
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Deprecated is what Cluster API will remove.
	Deprecated MachineSetDeprecated `json:"deprecated,omitzero"`
}

// MachineSetDeprecated has fields that Cluster API will remove.
type MachineSetDeprecated struct {
	// V1Beta1 is from v1beta1.
	V1Beta1 MachineSetV1Beta1 `json:"v1beta1,omitzero"`
}

// MachineSetV1Beta1 is the status as it was in v1beta1.
type MachineSetV1Beta1 struct {
	CountsV1Beta1 `json:",inline"`
	V1Beta1Status `json:",inline"`
	// FullyLabeledReplicas is how many Machines have all labels of the template.
	FullyLabeledReplicas *int32 `json:"fullyLabeledReplicas,omitempty"`
}
