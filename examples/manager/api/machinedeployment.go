package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachineDeployment keeps a number of equal Machines, and replaces them step by step when their template changes.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=machinedeployments,shortName=md;mmd,scope=Namespaced,categories=cluster-api;machinist
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
type MachineDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the wanted state.
	// +required
	Spec MachineDeploymentSpec `json:"spec,omitzero"`
	// Status is the observed state. Controllers write it.
	Status MachineDeploymentStatus `json:"status,omitzero"`
}

// MachineDeploymentList is a list of MachineDeployments.
// +kubebuilder:object:root=true
type MachineDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []MachineDeployment `json:"items"`
}

// MachineDeploymentSpec is the wanted state.
// +kubebuilder:validation:XValidation:rule="has(self.clusterName) == has(oldSelf.clusterName) && (!has(self.clusterName) || self.clusterName == oldSelf.clusterName)",message="clusterName must not change: a MachineDeployment stays in its cluster"
// +kubebuilder:validation:XValidation:rule="has(self.clusterName) == has(self.template.spec.clusterName) && (!has(self.clusterName) || self.clusterName == self.template.spec.clusterName)",message="clusterName and template.spec.clusterName must be equal"
// +kubebuilder:validation:XValidation:rule="!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, has(self.template.metadata) && has(self.template.metadata.labels) && k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])",message="template.metadata.labels must have all labels of selector.matchLabels"
type MachineDeploymentSpec struct {
	// ClusterName is the cluster that the MachineDeployment belongs to. A manager whose Nodes are in its own cluster needs none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`
	// Replicas is the wanted number of Machines. Leave it out where an autoscaler decides: then what there is stays, and a new object begins
	// with the annotation cluster-api-autoscaler-node-group-min-size, or with 1.
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// Rollout is how Machines are replaced when the template changes.
	// +kubebuilder:default={strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}
	Rollout Rollout `json:"rollout,omitzero"`
	// Selector selects the Machines of the deployment.
	// +required
	Selector LabelSelector `json:"selector,omitzero"`
	// Template is what new Machines are made of.
	// +required
	Template MachineTemplate `json:"template,omitzero"`
	// MachineNaming has the template of the names of new Machines.
	MachineNaming MachineNaming `json:"machineNaming,omitzero"`
	// Remediation limits how many unhealthy Machines are replaced at once.
	Remediation DeploymentRemediation `json:"remediation,omitzero"`
	// Deletion selects the Machines that are deleted first.
	// +kubebuilder:default={order: Random}
	Deletion MachinesDeletion `json:"deletion,omitzero"`
	// Paused holds rollouts up. Scaling goes on.
	Paused *bool `json:"paused,omitempty"`
}

// Rollout is how Machines are replaced.
// +kubebuilder:validation:MinProperties=1
type Rollout struct {
	// After is a time from which on Machines that are older are replaced.
	After metav1.Time `json:"after,omitzero"`
	// Strategy is the way of replacement.
	Strategy RolloutStrategy `json:"strategy,omitzero"`
}

// RolloutStrategy is the way of replacement.
// +kubebuilder:validation:MinProperties=1
type RolloutStrategy struct {
	// Type is RollingUpdate, or OnDelete for Machines that a person deletes.
	// +required
	// +kubebuilder:validation:Enum=RollingUpdate;OnDelete
	Type string `json:"type,omitempty"`
	// RollingUpdate has the bounds of a rolling update.
	RollingUpdate RollingUpdate `json:"rollingUpdate,omitzero"`
}

// RollingUpdate has the bounds of a rolling update.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="self.maxSurge != 0 && self.maxSurge != '0%' || self.maxUnavailable != 0 && self.maxUnavailable != '0%'",message="maxSurge and maxUnavailable must not both be 0: no Machine could be replaced"
type RollingUpdate struct {
	// MaxSurge is how many Machines there may be beyond replicas, as a number or a percentage of replicas, rounded up.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^[0-9]+%$') : self >= 0",message="give a number of at least 0, or a percentage such as 10%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// MaxUnavailable is how many of the replicas may be unavailable, as a number or a percentage of replicas, rounded down.
	// +kubebuilder:default=0
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^([0-9]|[1-9][0-9]|100)%$') : self >= 0",message="give a number of at least 0, or a percentage up to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// DeploymentRemediation limits how many unhealthy Machines are replaced at once.
// +kubebuilder:validation:MinProperties=1
type DeploymentRemediation struct {
	// MaxInFlight is how many are replaced at the same time, as a number or a percentage of replicas. Default: no limit.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^([0-9]|[1-9][0-9]|100)%$') : self >= 0",message="give a number of at least 0, or a percentage up to 100%"
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`
}

// MachineDeploymentStatus is the observed state.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentStatus struct {
	// Conditions are the observations of the MachineDeployment.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitzero"`
	Counts     `json:",inline"`
	// Phase sums the MachineDeployment up for people. Programs read conditions.
	// +kubebuilder:validation:Enum=ScalingUp;ScalingDown;Running;Failed;Unknown
	Phase string `json:"phase,omitempty"`
	// ObservedGeneration is the generation that the status was made of.
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Deprecated is what Cluster API will remove.
	Deprecated MachineDeploymentDeprecated `json:"deprecated,omitzero"`
}

// MachineDeploymentDeprecated has fields that Cluster API will remove.
type MachineDeploymentDeprecated struct {
	// V1Beta1 is from v1beta1.
	V1Beta1 MachineDeploymentV1Beta1 `json:"v1beta1,omitzero"`
}

// MachineDeploymentV1Beta1 is the status as it was in v1beta1.
type MachineDeploymentV1Beta1 struct {
	CountsV1Beta1 `json:",inline"`
	// UpdatedReplicas is how many Machines have the template.
	UpdatedReplicas *int32 `json:"updatedReplicas,omitempty"`
	// UnavailableReplicas is how many Machines are missing or have no Node that is available.
	UnavailableReplicas *int32 `json:"unavailableReplicas,omitempty"`
}
