package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachineHealthCheck has the rules for unhealthy Machines, and how many of them may be replaced.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=machinehealthchecks,shortName=mhc;mhcs;mmhc,scope=Namespaced,categories=cluster-api;machinist
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.expectedMachines`
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.currentHealthy`
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MachineHealthCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the wanted state.
	// +required
	Spec MachineHealthCheckSpec `json:"spec,omitzero"`
	// Status is the observed state. Controllers write it.
	Status MachineHealthCheckStatus `json:"status,omitzero"`
}

// MachineHealthCheckList is a list of MachineHealthChecks.
// +kubebuilder:object:root=true
type MachineHealthCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []MachineHealthCheck `json:"items"`
}

// MachineHealthCheckSpec is the wanted state.
// +kubebuilder:validation:XValidation:rule="has(self.clusterName) == has(oldSelf.clusterName) && (!has(self.clusterName) || self.clusterName == oldSelf.clusterName)",message="clusterName must not change: a MachineHealthCheck stays in its cluster"
type MachineHealthCheckSpec struct {
	// ClusterName is the cluster whose Machines are checked. A manager whose Nodes are in its own cluster needs none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`
	// Selector selects the Machines.
	// +required
	Selector LabelSelector `json:"selector,omitzero"`
	// Checks are the rules that make a Machine unhealthy.
	// +kubebuilder:default={nodeStartupTimeoutSeconds: 600}
	Checks HealthChecks `json:"checks,omitzero"`
	// Remediation is how unhealthy Machines are replaced. Default: their owners replace them.
	Remediation HealthRemediation `json:"remediation,omitzero"`
}

// HealthChecks are the rules that make a Machine unhealthy.
// +kubebuilder:validation:MinProperties=1
type HealthChecks struct {
	// NodeStartupTimeoutSeconds is how long a Machine may have no Node; 0 is no limit.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=600
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 30",message="give at least 30 seconds, or 0 for no limit"
	NodeStartupTimeoutSeconds *int32 `json:"nodeStartupTimeoutSeconds,omitempty"`
	// UnhealthyNodeConditions are conditions of the Node, each of which makes a Machine unhealthy.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	UnhealthyNodeConditions []NodeCondition `json:"unhealthyNodeConditions,omitempty"`
	// UnhealthyMachineConditions are conditions of the Machine, each of which makes it unhealthy.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	UnhealthyMachineConditions []MachineCondition `json:"unhealthyMachineConditions,omitempty"`
}

// NodeCondition is a condition that a Node may have for a time only.
type NodeCondition struct {
	// Type is the type of the condition.
	// +required
	// +kubebuilder:validation:MinLength=1
	Type string `json:"type,omitempty"`
	// Status is the status of the condition.
	// +required
	// +kubebuilder:validation:MinLength=1
	Status string `json:"status,omitempty"`
	// TimeoutSeconds is how long the condition may have this status.
	// +required
	// +kubebuilder:validation:Minimum=0
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// MachineCondition is a condition that a Machine may have for a time only.
type MachineCondition struct {
	// Type is the type of the condition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['Ready', 'Available', 'HealthCheckSucceeded', 'OwnerRemediated', 'ExternallyRemediated'])",message="Ready, Available, HealthCheckSucceeded, OwnerRemediated and ExternallyRemediated depend on this check: give another type"
	Type string `json:"type,omitempty"`
	// Status is the status of the condition.
	// +required
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status string `json:"status,omitempty"`
	// TimeoutSeconds is how long the condition may have this status.
	// +required
	// +kubebuilder:validation:Minimum=0
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// HealthRemediation is how unhealthy Machines are replaced.
// +kubebuilder:validation:MinProperties=1
type HealthRemediation struct {
	// TriggerIf limits how many Machines may be unhealthy. Beyond the limit none is remediated.
	TriggerIf RemediationTrigger `json:"triggerIf,omitzero"`
	// TemplateRef is the template of the objects that remediate. Default: the owners of the Machines do.
	TemplateRef TemplateReference `json:"templateRef,omitzero"`
}

// RemediationTrigger limits how many Machines may be unhealthy.
// +kubebuilder:validation:MinProperties=1
type RemediationTrigger struct {
	// UnhealthyLessThanOrEqualTo is the largest number or percentage of unhealthy Machines with which Machines are remediated. Default 100%.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^([0-9]|[1-9][0-9]|100)%$') : self >= 0",message="give a number of at least 0, or a percentage up to 100%"
	UnhealthyLessThanOrEqualTo *intstr.IntOrString `json:"unhealthyLessThanOrEqualTo,omitempty"`
	// UnhealthyInRange is a range of numbers, such as [3-5]. It takes precedence.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[[][0-9]{1,9}-[0-9]{1,9}[]]$') && int(self.substring(1, self.indexOf('-'))) <= int(self.substring(self.indexOf('-') + 1, self.size() - 1))",message="give a range such as [3-5], with the smaller number first"
	UnhealthyInRange string `json:"unhealthyInRange,omitempty"`
}

// TemplateReference is a template in the same namespace.
type TemplateReference struct {
	// Kind is the template's kind.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind,omitempty"`
	// Name is the template's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`
	// APIVersion is the group and version of the template's kind.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[a-z]([-a-z0-9]*[a-z0-9])?$`
	APIVersion string `json:"apiVersion,omitempty"`
}

// MachineHealthCheckStatus is the observed state.
// +kubebuilder:validation:MinProperties=1
type MachineHealthCheckStatus struct {
	// Conditions are the observations of the MachineHealthCheck.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitzero"`
	// ExpectedMachines is how many Machines are checked.
	// +kubebuilder:validation:Minimum=0
	ExpectedMachines *int32 `json:"expectedMachines,omitempty"`
	// CurrentHealthy is how many of them are healthy.
	// +kubebuilder:validation:Minimum=0
	CurrentHealthy *int32 `json:"currentHealthy,omitempty"`
	// RemediationsAllowed is how many may be remediated now.
	// +kubebuilder:validation:Minimum=0
	RemediationsAllowed *int32 `json:"remediationsAllowed,omitempty"`
	// ObservedGeneration is the generation that the status was made of.
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Targets are the names of the Machines.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Targets []string `json:"targets,omitempty"`
}
