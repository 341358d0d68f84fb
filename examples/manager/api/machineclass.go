package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MachineClass is what a driver makes instances of. Machines, and the templates of sets and deployments, name it in their
// infrastructureRef.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=machineclasses,shortName=mcc,scope=Namespaced,categories=machinist
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.spec.secretRef.name`
// +kubebuilder:printcolumn:name="Credentials",type=string,JSONPath=`.spec.credentialsSecretRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MachineClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is what the driver is asked for. A change applies to instances that are made later.
	// +required
	Spec MachineClassSpec `json:"spec,omitzero"`
}

// MachineClassList is a list of MachineClasses.
// +kubebuilder:object:root=true
type MachineClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []MachineClass `json:"items"`
}

// MachineClassSpec is what the driver is asked for.
type MachineClassSpec struct {
	// ProviderSpec is the specification of an instance, in the words of the driver. A Machine whose driver refuses it says so in its
	// condition InfrastructureReady.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	ProviderSpec runtime.RawExtension `json:"providerSpec,omitzero"`
	// SecretRef is the Secret with the user data, at the key userData, and with credentials of the provider. A driver that needs neither has
	// none.
	SecretRef SecretReference `json:"secretRef,omitzero"`
	// CredentialsSecretRef is the Secret with the credentials, where that of SecretRef has none, or others.
	CredentialsSecretRef SecretReference `json:"credentialsSecretRef,omitzero"`
}

// SecretReference is a Secret in the same namespace.
type SecretReference struct {
	// Name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`
}
