package contract

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrUnknownVersion matches the error of reading through the nil layout of an unsupported contract version.
var ErrUnknownVersion = errors.New("unknown contract version")

// unknownVersion returns the error of reading through a nil layout.
func unknownVersion(obj *unstructured.Unstructured) error {
	return fmt.Errorf("%s: %w", describe("", obj), ErrUnknownVersion)
}

// breaks adds the object and its contract version to an error; nil for a nil error.
func breaks(obj *unstructured.Unstructured, v Version, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s breaks contract %s: %w", describe("", obj), v, err)
}

// about adds the object to an error; nil for a nil error.
func about(kind string, obj Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", describe(kind, obj), err)
}

// describe returns the kind, namespace and name of an object for people: "AWSMachine default/worker-1". An empty kind means the kind of the
// object itself.
func describe(kind string, obj Object) string {
	name := obj.GetName()
	if namespace := obj.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(cmp.Or(kind, obj.GetObjectKind().GroupVersionKind().Kind) + " " + name)
}

// InfraMachineLayout locates the fields of an InfraMachine that a Machine reads, in one contract version. Rule: contract page
// "InfraMachine". The tags are those of MachineLayout, and need is the requirement level of the contract.
type InfraMachineLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// Provisioned is true once the machine exists.
	Provisioned Field[bool] `by:"provider" need:"MUST" absent:"not yet"`
	// ProviderID is the opaque ID of the machine, which its Node has too. Due once provisioned.
	ProviderID Field[string] `by:"provider" need:"MUST" absent:"not known yet"`
	// Addresses are those of the machine. Due once provisioned.
	Addresses Field[[]Address] `by:"provider" need:"MAY" absent:"those of the Machine stay"`
	// FailureDomain is the actual failure domain of the machine. Due once provisioned.
	FailureDomain Field[string] `by:"provider" need:"MAY" absent:"the fallback applies"`
	// FailureDomainFallback is the field of the contract versions before v1beta2, in which the provider overwrites the desired failure domain.
	// In every version, Cluster API reads both fields: FailureDomain into status.failureDomain of the Machine, this one into its spec.
	FailureDomainFallback Field[string] `by:"provider" need:"MAY" absent:"unknown"`
	// Interruptible is true when the provider may reclaim the machine, as with spot instances. No contract page lists it, but Cluster API
	// labels the Node by it.
	Interruptible Field[bool] `by:"provider" need:"MAY" absent:"false"`
	// FailureReason and FailureMessage are a permanent failure. The contract has dropped both in v1beta2; Cluster API still reads them.
	FailureReason, FailureMessage Field[string] `by:"provider" need:"MAY" absent:"no failure"`
	// Conditions holds a Ready condition. The list of a provider in transition (status.v1beta2.conditions) takes precedence.
	Conditions ConditionsField `by:"provider" need:"SHOULD" absent:"none, and the flag applies"`
}

// InfraMachineState is the part of an InfraMachine that a Machine reads. It shares strings with the object, but no mutable data.
type InfraMachineState struct {
	// Provisioned is false when absent.
	Provisioned bool
	// ProviderID is empty when absent.
	ProviderID string
	// Addresses are the listed addresses; HasAddresses is false when the object has no list.
	Addresses    []Address
	HasAddresses bool
	// FailureDomain is the actual failure domain of the machine: that of the status in every version, or the fallback when that is absent or
	// empty.
	FailureDomain Opt[string]
	// FailureDomainFallback is the fallback alone: the domain in which the machine was placed.
	FailureDomainFallback Opt[string]
	// Interruptible is false when absent.
	Interruptible bool
	// FailureReason and FailureMessage are empty without a failure.
	FailureReason, FailureMessage string
	// Ready is the condition Ready. An unreadable condition is Unknown with ReasonInvalidCondition.
	Ready Opt[metav1.Condition]
	// Unreadable is the error of values that are not needed yet, nil when there is none: a provider ID, addresses or a failure domain of
	// another type before the machine is provisioned. It blocks nothing. It matches ErrWrongType.
	Unreadable error
}

func infraMachineBefore(v Version) InfraMachineLayout {
	l := infraMachineSinceV1Beta2(v)
	l.Provisioned = At[bool]("status", "ready")
	return l
}

func infraMachineSinceV1Beta2(v Version) InfraMachineLayout {
	return InfraMachineLayout{
		Version:               v,
		Provisioned:           At[bool]("status", "initialization", "provisioned"),
		ProviderID:            At[string]("spec", "providerID"),
		Addresses:             At[[]Address]("status", "addresses"),
		FailureDomain:         At[string]("status", "failureDomain"),
		FailureDomainFallback: At[string]("spec", "failureDomain"),
		Interruptible:         At[bool]("status", "interruptible"),
		FailureReason:         At[string]("status", "failureReason"),
		FailureMessage:        At[string]("status", "failureMessage"),
		Conditions:            providerConditions(),
	}
}

// Read fills every field of into from obj, reusing lists that are equal. It neither changes nor retains obj, and allocates nothing for an
// unchanged object while times are in UTC. The error names the object and matches ErrWrongType or ErrUnknownVersion; discard into after an
// error. Provider ID, addresses and failure domain are due once the machine is provisioned: before, unreadable ones are absent and
// reported in Unreadable.
func (l *InfraMachineLayout) Read(obj *unstructured.Unstructured, into *InfraMachineState) error {
	if l == nil {
		return unknownVersion(obj)
	}
	return breaks(obj, l.Version, l.read(obj.Object, into))
}

func (l *InfraMachineLayout) read(obj map[string]any, into *InfraMachineState) error {
	r := &exchange{obj: obj} // stays on the stack: nothing below retains it
	into.Provisioned = value(r, l.Provisioned).Or(false)
	into.Interruptible = value(r, l.Interruptible).Or(false)
	into.FailureReason = text(r, l.FailureReason)
	into.FailureMessage = text(r, l.FailureMessage)
	into.Ready = mirrored(l.Conditions, obj, ConditionReady)
	into.Unreadable = nil
	if r.err != nil {
		return r.err
	}
	into.ProviderID = text(r, l.ProviderID)
	r.deferUnless(into.Provisioned, &into.Unreadable)
	into.HasAddresses = load(r, l.Addresses, &into.Addresses)
	r.deferUnless(into.Provisioned, &into.Unreadable)
	into.FailureDomain = r.firstNonEmpty(l.FailureDomain, l.FailureDomainFallback)
	into.FailureDomainFallback = value(r, l.FailureDomainFallback)
	r.deferUnless(into.Provisioned, &into.Unreadable)
	return r.err
}

// CertificatesExpiryAnnotation on a BootstrapConfig or a Machine of a control plane holds when the certificates of the machine expire, as
// an RFC 3339 time. The annotation of the Machine takes precedence. Rule: Cluster API's automatic certificate rotation.
const CertificatesExpiryAnnotation = "machine.cluster.x-k8s.io/certificates-expiry"

// BootstrapConfigLayout locates the fields of a BootstrapConfig that a Machine reads, in one contract version. Rule: contract page
// "BootstrapConfig". The tags are those of MachineLayout, and need is the requirement level of the contract.
type BootstrapConfigLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// DataSecretCreated is true once the bootstrap data is ready.
	DataSecretCreated Field[bool] `by:"provider" need:"MUST" absent:"not yet"`
	// DataSecretName is the name of a Secret in the namespace of the Machine. Due once created.
	DataSecretName Field[string] `by:"provider" need:"MUST" absent:"not known yet"`
	// FailureReason and FailureMessage are a permanent failure. The contract has dropped both in v1beta2; Cluster API still reads them.
	FailureReason, FailureMessage Field[string] `by:"provider" need:"MAY" absent:"no failure"`
	// Conditions holds a Ready condition. The list of a provider in transition (status.v1beta2.conditions) takes precedence.
	Conditions ConditionsField `by:"provider" need:"SHOULD" absent:"none, and the flag applies"`
}

// BootstrapConfigState is the part of a BootstrapConfig that a Machine reads.
type BootstrapConfigState struct {
	// DataSecretCreated is false when absent.
	DataSecretCreated bool
	// DataSecretName may be absent. An empty name breaks the contract once the data is created.
	DataSecretName Opt[string]
	// FailureReason and FailureMessage are empty without a failure.
	FailureReason, FailureMessage string
	// Ready is the condition Ready. An unreadable condition is Unknown with ReasonInvalidCondition.
	Ready Opt[metav1.Condition]
	// Unreadable is the error of a value that is not needed yet, nil when there is none: a secret name of another type before the data is
	// created. It blocks nothing. It matches ErrWrongType.
	Unreadable error
}

func bootstrapConfigBefore(v Version) BootstrapConfigLayout {
	l := bootstrapConfigSinceV1Beta2(v)
	l.DataSecretCreated = At[bool]("status", "ready")
	return l
}

func bootstrapConfigSinceV1Beta2(v Version) BootstrapConfigLayout {
	return BootstrapConfigLayout{
		Version:           v,
		DataSecretCreated: At[bool]("status", "initialization", "dataSecretCreated"),
		DataSecretName:    At[string]("status", "dataSecretName"),
		FailureReason:     At[string]("status", "failureReason"),
		FailureMessage:    At[string]("status", "failureMessage"),
		Conditions:        providerConditions(),
	}
}

// Read fills every field of into from obj. It neither changes nor retains obj, and allocates nothing while times are in UTC. The error
// names the object and matches ErrWrongType or ErrUnknownVersion; discard into after an error. The secret name is due once the data is
// created: before, an unreadable name is absent and reported in Unreadable.
func (l *BootstrapConfigLayout) Read(obj *unstructured.Unstructured, into *BootstrapConfigState) error {
	if l == nil {
		return unknownVersion(obj)
	}
	return breaks(obj, l.Version, l.read(obj.Object, into))
}

func (l *BootstrapConfigLayout) read(obj map[string]any, into *BootstrapConfigState) error {
	r := &exchange{obj: obj} // stays on the stack: nothing below retains it
	into.DataSecretCreated = value(r, l.DataSecretCreated).Or(false)
	into.FailureReason = text(r, l.FailureReason)
	into.FailureMessage = text(r, l.FailureMessage)
	into.Ready = mirrored(l.Conditions, obj, ConditionReady)
	into.Unreadable = nil
	if r.err != nil {
		return r.err
	}
	into.DataSecretName = value(r, l.DataSecretName)
	r.deferUnless(into.DataSecretCreated, &into.Unreadable)
	return r.err
}

// InfraMachinePoolLayout locates the fields of an InfraMachinePool that a MachinePool reads, in one contract version. Rule: contract page
// "InfraMachinePool". The tags are those of MachineLayout, and need is the requirement level of the contract.
type InfraMachinePoolLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// Provisioned is true once the group exists. One of the two flags is enough; see InfraMachinePoolState.
	Provisioned         Field[bool] `by:"provider" need:"MUST" absent:"the fallback applies"`
	ProvisionedFallback Field[bool] `by:"provider" need:"MAY" absent:"not yet"`
	// ProviderIDList holds the IDs of all machines of the group. Due once provisioned.
	ProviderIDList Field[[]string] `by:"provider" need:"MUST" absent:"not known yet; none where replicas is 0"`
	// Replicas is the number of machines. Due once provisioned.
	Replicas Field[int32] `by:"provider" need:"MUST" absent:"that of the MachinePool stays"`
	// InfrastructureMachineKind is the kind of the InfraMachines for the machines of the group, for a provider that creates them. Due once
	// provisioned.
	InfrastructureMachineKind Field[string] `by:"provider" need:"MAY" absent:"no Machines for the machines of the group"`
	// FailureReason and FailureMessage are a permanent failure. The contract has dropped both in v1beta2; Cluster API still reads them.
	FailureReason, FailureMessage Field[string] `by:"provider" need:"MAY" absent:"no failure"`
	// Conditions holds a Ready condition. The list of a provider in transition (status.v1beta2.conditions) takes precedence.
	Conditions ConditionsField `by:"provider" need:"SHOULD" absent:"none, and the flag applies"`
}

// InfraMachinePoolState is the part of an InfraMachinePool that a MachinePool reads. It shares strings with the object, but no mutable
// data.
type InfraMachinePoolState struct {
	// Provisioned is true when status.initialization.provisioned or status.ready is true, in every contract version: the contract page has the
	// first, Cluster API reads only the second, and providers write either. When a provider clears status.ready while it scales, the group
	// still exists.
	Provisioned bool
	// ProviderIDList holds the IDs in the order of the object; HasProviderIDList is false when the object has no list. See Listed.
	ProviderIDList    []string
	HasProviderIDList bool
	// Replicas may be absent, which is not 0.
	Replicas Opt[int32]
	// InfrastructureMachineKind is empty unless the provider creates an InfraMachine for every machine.
	InfrastructureMachineKind string
	// FailureReason and FailureMessage are empty without a failure.
	FailureReason, FailureMessage string
	// Ready is the condition Ready. An unreadable condition is Unknown with ReasonInvalidCondition.
	Ready Opt[metav1.Condition]
	// Unreadable is the error of values that are not needed yet, nil when there is none: values that are due once provisioned, before. It
	// blocks nothing. It matches ErrWrongType.
	Unreadable error
}

// Listed reports whether ProviderIDList is complete, even when it is missing or empty. A provider whose Go type drops an empty list
// (providerIDList,omitempty, as in the contract's own type) reports only status.replicas 0. With any other number, a missing or empty list
// is not known yet. Rule: contract page "InfraMachinePool", providerIDList and replicas.
func (s *InfraMachinePoolState) Listed() bool {
	if n, found := s.Replicas.Get(); len(s.ProviderIDList) == 0 && found {
		return n == 0
	}
	return s.HasProviderIDList || len(s.ProviderIDList) > 0
}

func infraMachinePoolBefore(v Version) InfraMachinePoolLayout {
	l := infraMachinePoolSinceV1Beta2(v)
	l.Provisioned, l.ProvisionedFallback = l.ProvisionedFallback, l.Provisioned
	return l
}

func infraMachinePoolSinceV1Beta2(v Version) InfraMachinePoolLayout {
	return InfraMachinePoolLayout{
		Version:                   v,
		Provisioned:               At[bool]("status", "initialization", "provisioned"),
		ProvisionedFallback:       At[bool]("status", "ready"),
		ProviderIDList:            At[[]string]("spec", "providerIDList"),
		Replicas:                  At[int32]("status", "replicas"),
		InfrastructureMachineKind: At[string]("status", "infrastructureMachineKind"),
		FailureReason:             At[string]("status", "failureReason"),
		FailureMessage:            At[string]("status", "failureMessage"),
		Conditions:                providerConditions(),
	}
}

// Read fills every field of into from obj, reusing lists that are equal. It neither changes nor retains obj, and allocates nothing for an
// unchanged object while times are in UTC. The error names the object and matches ErrWrongType or ErrUnknownVersion; discard into after an
// error. IDs, replicas and the kind are due once the group is provisioned: before, unreadable ones are absent and reported in Unreadable.
func (l *InfraMachinePoolLayout) Read(obj *unstructured.Unstructured, into *InfraMachinePoolState) error {
	if l == nil {
		return unknownVersion(obj)
	}
	return breaks(obj, l.Version, l.read(obj.Object, into))
}

func (l *InfraMachinePoolLayout) read(obj map[string]any, into *InfraMachinePoolState) error {
	r := &exchange{obj: obj} // stays on the stack: nothing below retains it
	into.Provisioned = r.either(l.Provisioned, l.ProvisionedFallback)
	into.FailureReason = text(r, l.FailureReason)
	into.FailureMessage = text(r, l.FailureMessage)
	into.Ready = mirrored(l.Conditions, obj, ConditionReady)
	into.Unreadable = nil
	if r.err != nil {
		return r.err
	}
	into.HasProviderIDList = load(r, l.ProviderIDList, &into.ProviderIDList)
	r.deferUnless(into.Provisioned, &into.Unreadable)
	into.Replicas = value(r, l.Replicas)
	r.deferUnless(into.Provisioned, &into.Unreadable)
	into.InfrastructureMachineKind = text(r, l.InfrastructureMachineKind)
	r.deferUnless(into.Provisioned, &into.Unreadable)
	return r.err
}
