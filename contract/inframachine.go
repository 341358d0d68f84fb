package contract

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrUnknownVersion matches the error of reading through the nil layout of a contract version that is not supported.
var ErrUnknownVersion = errors.New("unknown contract version")

// ConditionReady is the condition of a provider object that its owner mirrors.
const ConditionReady = "Ready"

// InfraMachineLayout says where an InfraMachine of one contract version keeps what a Machine reads of it.
// Rule: contract page "InfraMachine". The tables returned by InfraMachine are shared: copy one to change it.
type InfraMachineLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// Provisioned is true once the machine exists; MUST. Absent means false.
	Provisioned Field[bool]
	// ProviderID is the opaque ID that the machine's Node carries too; MUST. Read once provisioned.
	ProviderID Field[string]
	// Addresses are optional.
	Addresses AddressesField
	// FailureDomain is where the machine really is; optional.
	FailureDomain Field[string]
	// Conditions SHOULD hold a Ready condition. The list of a provider in transition (status.v1beta2.conditions) goes first.
	Conditions ConditionsField
}

// InfraMachineState is what an InfraMachine says. It shares strings with the object, nothing that can change.
type InfraMachineState struct {
	// Provisioned is false while the object does not say.
	Provisioned bool
	// ProviderID is empty while the object does not say.
	ProviderID string
	// Addresses are those that the object lists; HasAddresses is false when it has no list.
	Addresses    []Address
	HasAddresses bool
	// FailureDomain is where the machine really is.
	FailureDomain Opt[string]
	// Ready is the condition of that type. One that cannot be read is Unknown with ReasonInvalidCondition.
	Ready Opt[metav1.Condition]
}

var infraMachineV1Beta1 = InfraMachineLayout{
	Version:       V1Beta1,
	Provisioned:   At[bool]("status", "ready"),
	ProviderID:    At[string]("spec", "providerID"),
	Addresses:     AddressesAt("status", "addresses"),
	FailureDomain: At[string]("spec", "failureDomain"),
	Conditions:    providerConditions(),
}

var infraMachineV1Beta2 = InfraMachineLayout{
	Version:       V1Beta2,
	Provisioned:   At[bool]("status", "initialization", "provisioned"),
	ProviderID:    At[string]("spec", "providerID"),
	Addresses:     AddressesAt("status", "addresses"),
	FailureDomain: At[string]("status", "failureDomain"),
	Conditions:    providerConditions(),
}

// InfraMachine returns the layout of a contract version, nil for one that is not supported. The table is shared and must
// not be changed; copy it to make a dialect.
func InfraMachine(v Version) *InfraMachineLayout {
	switch v {
	case V1Beta1:
		return &infraMachineV1Beta1
	case V1Beta2:
		return &infraMachineV1Beta2
	default:
		return nil
	}
}

// Read fills every field of into from the object, reusing its slices; it neither changes nor keeps obj. It allocates
// nothing when the slices are large enough and times are in UTC. The error names the object and matches ErrWrongType or
// ErrUnknownVersion; into is then to be thrown away.
func (l *InfraMachineLayout) Read(obj *unstructured.Unstructured, into *InfraMachineState) error {
	if l == nil {
		return fmt.Errorf("%s: %w", describe(obj), ErrUnknownVersion)
	}
	if err := l.read(obj.Object, into); err != nil {
		return fmt.Errorf("%s breaks contract %s: %w", describe(obj), l.Version, err)
	}
	return nil
}

func (l *InfraMachineLayout) read(obj map[string]any, into *InfraMachineState) (err error) {
	if into.Provisioned, _, err = l.Provisioned.Get(obj); err != nil {
		return err
	}
	if into.ProviderID, _, err = l.ProviderID.Get(obj); err != nil {
		return err
	}
	if into.Addresses, into.HasAddresses, err = l.Addresses.Get(obj, into.Addresses); err != nil {
		return err
	}
	if into.FailureDomain, err = read(l.FailureDomain, obj); err != nil {
		return err
	}
	into.Ready = readReady(l.Conditions, obj)
	return nil
}

func read[T Scalar](f Field[T], obj map[string]any) (Opt[T], error) {
	value, found, err := f.Get(obj)
	return Opt[T]{value: value, found: found}, err
}

// readReady reads the Ready condition. One that cannot be read must not hold up the Machine, because conditions are for
// people: it becomes Unknown and says what is wrong with it. Cluster API mirrors such conditions in the same way.
func readReady(f ConditionsField, obj map[string]any) Opt[metav1.Condition] {
	c, found, err := f.Find(obj, ConditionReady)
	if err != nil {
		return Some(metav1.Condition{
			Type: ConditionReady, Status: metav1.ConditionUnknown, Reason: ReasonInvalidCondition, Message: err.Error(),
		})
	}
	return Opt[metav1.Condition]{value: c, found: found}
}

// describe names an object as a person would look for it: "AWSMachine default/worker-1".
func describe(obj *unstructured.Unstructured) string {
	if obj.GetNamespace() == "" {
		return obj.GetKind() + " " + obj.GetName()
	}
	return obj.GetKind() + " " + obj.GetNamespace() + "/" + obj.GetName()
}
