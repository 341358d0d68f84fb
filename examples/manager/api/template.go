package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MachineTemplate is what Machines are made of.
type MachineTemplate struct {
	// Metadata has the labels and annotations of the Machines.
	Metadata TemplateMetadata `json:"metadata,omitzero"`
	// Spec is the wanted state of each Machine.
	// +required
	Spec MachineSpec `json:"spec,omitzero"`
}

// TemplateMetadata has labels and annotations for Machines.
// +kubebuilder:validation:MinProperties=1
type TemplateMetadata struct {
	// Labels of the Machines.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the Machines.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// LabelSelector selects Machines by their labels. All requirements must be met. It has the fields of metav1.LabelSelector, with bounds.
// +structType=atomic
// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="give matchLabels or matchExpressions: an empty selector selects all Machines"
type LabelSelector struct {
	// MatchLabels are labels with their values.
	// +kubebuilder:validation:MaxProperties=64
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// MatchExpressions are further requirements.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MatchExpressions []LabelRequirement `json:"matchExpressions,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// LabelRequirement is about one label.
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",message="In and NotIn need values, Exists and DoesNotExist have none"
type LabelRequirement struct {
	// Key is the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`
	// Operator is the relation of the label to the values.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator,omitempty"`
	// Values are those of In and NotIn.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Values []LabelValue `json:"values,omitempty"`
}

// MachineNaming has the template of the names of Machines.
// +kubebuilder:validation:MinProperties=1
type MachineNaming struct {
	// Template of the names, with .cluster.name, .machineSet.name and .random, such as "{{ .machineSet.name }}-{{ .random }}".
	// Default: the name of the MachineSet and a suffix.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('[{][{] *[.]random *[}][}]')",message="the template must contain {{ .random }}, or all Machines would have one name"
	Template string `json:"template,omitempty"`
}

// MachinesDeletion selects the Machines that are deleted first.
// +kubebuilder:validation:MinProperties=1
type MachinesDeletion struct {
	// Order is which Machines are deleted when there are too many.
	// +kubebuilder:validation:Enum=Random;Newest;Oldest
	// +kubebuilder:default=Random
	Order string `json:"order,omitempty"`
}

// CountsV1Beta1 are the numbers of Machines as Cluster API's v1beta1 counts them: by Nodes.
type CountsV1Beta1 struct {
	// ReadyReplicas is how many Machines have a Node that is ready.
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`
	// AvailableReplicas is how many have had such a Node for minReadySeconds.
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`
}

// Counts are the numbers of Machines; nil is unknown.
type Counts struct {
	// Selector selects the Machines, as text. The scale subresource has it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Selector string `json:"selector,omitempty"`
	// Replicas is how many Machines there are, with those that are being deleted.
	Replicas *int32 `json:"replicas,omitempty"`
	// ReadyReplicas is how many of them are Ready.
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`
	// AvailableReplicas is how many of them are Available.
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`
	// UpToDateReplicas is how many of them match the template.
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`
}
