package contract

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// BootstrapConfigLayout says where a BootstrapConfig of one contract version keeps what a Machine reads of it.
// Rule: contract page "BootstrapConfig". The tables returned by BootstrapConfig are shared: copy one to change it.
type BootstrapConfigLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// DataSecretCreated is true once the bootstrap data can be used; MUST. Absent means false.
	DataSecretCreated Field[bool]
	// DataSecretName names the Secret in the namespace of the Machine; MUST, once created.
	DataSecretName Field[string]
	// Conditions SHOULD hold a Ready condition. The list of a provider in transition (status.v1beta2.conditions) goes first.
	Conditions ConditionsField
}

// BootstrapConfigState is what a BootstrapConfig says.
type BootstrapConfigState struct {
	// DataSecretCreated is false while the object does not say.
	DataSecretCreated bool
	// DataSecretName is absent while the object does not say. An empty name breaks the contract once the data is created.
	DataSecretName Opt[string]
	// Ready is the condition of that type. One that cannot be read is Unknown with ReasonInvalidCondition.
	Ready Opt[metav1.Condition]
}

var bootstrapConfigV1Beta1 = BootstrapConfigLayout{
	Version:           V1Beta1,
	DataSecretCreated: At[bool]("status", "ready"),
	DataSecretName:    At[string]("status", "dataSecretName"),
	Conditions:        providerConditions(),
}

var bootstrapConfigV1Beta2 = BootstrapConfigLayout{
	Version:           V1Beta2,
	DataSecretCreated: At[bool]("status", "initialization", "dataSecretCreated"),
	DataSecretName:    At[string]("status", "dataSecretName"),
	Conditions:        providerConditions(),
}

// BootstrapConfig returns the layout of a contract version, nil for one that is not supported. The table is shared and
// must not be changed.
func BootstrapConfig(v Version) *BootstrapConfigLayout {
	switch v {
	case V1Beta1:
		return &bootstrapConfigV1Beta1
	case V1Beta2:
		return &bootstrapConfigV1Beta2
	default:
		return nil
	}
}

// Read fills every field of into from the object; it neither changes nor keeps obj. The error names the object and matches ErrWrongType
// or ErrUnknownVersion; into is then to be thrown away.
func (l *BootstrapConfigLayout) Read(obj *unstructured.Unstructured, into *BootstrapConfigState) error {
	if l == nil {
		return fmt.Errorf("%s: %w", describe(obj), ErrUnknownVersion)
	}
	if err := l.read(obj.Object, into); err != nil {
		return fmt.Errorf("%s breaks contract %s: %w", describe(obj), l.Version, err)
	}
	return nil
}

func (l *BootstrapConfigLayout) read(obj map[string]any, into *BootstrapConfigState) (err error) {
	if into.DataSecretCreated, _, err = l.DataSecretCreated.Get(obj); err != nil {
		return err
	}
	if into.DataSecretName, err = read(l.DataSecretName, obj); err != nil {
		return err
	}
	into.Ready = readReady(l.Conditions, obj)
	return nil
}
