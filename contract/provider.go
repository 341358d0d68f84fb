package contract

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrUnknownVersion matches the error of reading through the nil layout of a contract version that is not supported.
var ErrUnknownVersion = errors.New("unknown contract version")

// unknownVersion is the error of reading through a nil layout.
func unknownVersion(obj *unstructured.Unstructured) error {
	return fmt.Errorf("%s: %w", describe("", obj), ErrUnknownVersion)
}

// breaks says whose contract an object breaks, nil when err is.
func breaks(obj *unstructured.Unstructured, v Version, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s breaks contract %s: %w", describe("", obj), v, err)
}

// about says which object an error is about, nil when err is.
func about(kind string, obj Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", describe(kind, obj), err)
}

// describe names an object as a person would look for it: "AWSMachine default/worker-1". Without a kind it is what the object says.
func describe(kind string, obj Object) string {
	name := obj.GetName()
	if namespace := obj.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(cmp.Or(kind, obj.GetObjectKind().GroupVersionKind().Kind) + " " + name)
}

// InfraMachineLayout says where an InfraMachine of one contract version keeps what a Machine reads of it.
// Rule: contract page "InfraMachine". The tags are those of MachineLayout and say what the contract demands.
type InfraMachineLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// Provisioned is true once the machine exists.
	Provisioned Field[bool] `by:"provider" need:"MUST" absent:"not yet"`
	// ProviderID is the opaque ID that the machine's Node carries too. Due once provisioned.
	ProviderID Field[string] `by:"provider" need:"MUST" absent:"not known yet"`
	// Addresses are those of the machine. Due once provisioned.
	Addresses Field[[]Address] `by:"provider" need:"MAY" absent:"what the Machine says stays"`
	// FailureDomain is where the machine really is. Due once provisioned.
	FailureDomain Field[string] `by:"provider" need:"MAY" absent:"what the fallback says"`
	// FailureDomainFallback is the place of the contract versions before v1beta2, in which the provider overwrites what was asked for. Cluster
	// API reads both, whatever the version: the one into status.failureDomain of the Machine, this one into its spec.
	FailureDomainFallback Field[string] `by:"provider" need:"MAY" absent:"unknown"`
	// Interruptible says that the machine may be taken away, as spot instances are. No contract page names it, but Cluster
	// API labels the Node by it.
	Interruptible Field[bool] `by:"provider" need:"MAY" absent:"false"`
	// FailureReason and FailureMessage are a failure that does not go away by itself. The contract has dropped both in
	// v1beta2; Cluster API still reads them.
	FailureReason, FailureMessage Field[string] `by:"provider" need:"MAY" absent:"no failure"`
	// Conditions hold a Ready condition. The list of a provider in transition (status.v1beta2.conditions) goes first.
	Conditions ConditionsField `by:"provider" need:"SHOULD" absent:"none, and the owner goes by the flag"`
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
	// FailureDomain is where the machine really is: what the status says in every version, and when that is absent or empty, the fallback.
	FailureDomain Opt[string]
	// FailureDomainFallback is the fallback alone: where the machine was placed, whatever was asked for.
	FailureDomainFallback Opt[string]
	// Interruptible is false while the object does not say.
	Interruptible bool
	// FailureReason and FailureMessage are empty without a failure.
	FailureReason, FailureMessage string
	// Ready is the condition of that type. One that cannot be read is Unknown with ReasonInvalidCondition.
	Ready Opt[metav1.Condition]
	// Unreadable says what could not be read and holds nothing up, nil when there is nothing like that: a provider ID,
	// addresses or a failure domain of another type before the machine is provisioned. It matches ErrWrongType.
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

// Read fills every field of into from the object, reusing its slices; it neither changes nor keeps obj. It allocates
// nothing when the slices are large enough and times are in UTC. The error names the object and matches ErrWrongType or
// ErrUnknownVersion; discard into after an error. Provider ID, addresses and failure domain are due once the machine is
// provisioned: before, what cannot be read is absent and said in Unreadable.
func (l *InfraMachineLayout) Read(obj *unstructured.Unstructured, into *InfraMachineState) error {
	if l == nil {
		return unknownVersion(obj)
	}
	return breaks(obj, l.Version, l.read(obj.Object, into))
}

func (l *InfraMachineLayout) read(obj map[string]any, into *InfraMachineState) error {
	r := &reader{obj: obj} // stays on the stack: nothing below keeps it
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
	r.spareUnless(into.Provisioned, &into.Unreadable)
	into.Addresses = readEntries(r, l.Addresses.path, into.Addresses, readAddress)
	into.HasAddresses = r.has(l.Addresses.path)
	r.spareUnless(into.Provisioned, &into.Unreadable)
	into.FailureDomain = r.firstSaid(l.FailureDomain, l.FailureDomainFallback)
	into.FailureDomainFallback = value(r, l.FailureDomainFallback)
	r.spareUnless(into.Provisioned, &into.Unreadable)
	return r.err
}

// CertificatesExpiryAnnotation on a BootstrapConfig or a Machine of a control plane says when the certificates of the machine
// end, as an RFC 3339 time. What the Machine says goes first. Rule: Cluster API's automatic certificate rotation.
const CertificatesExpiryAnnotation = "machine.cluster.x-k8s.io/certificates-expiry"

// BootstrapConfigLayout says where a BootstrapConfig of one contract version keeps what a Machine reads of it.
// Rule: contract page "BootstrapConfig". The tags are those of MachineLayout and say what the contract demands.
type BootstrapConfigLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// DataSecretCreated is true once the bootstrap data can be used.
	DataSecretCreated Field[bool] `by:"provider" need:"MUST" absent:"not yet"`
	// DataSecretName names the Secret in the namespace of the Machine. Due once created.
	DataSecretName Field[string] `by:"provider" need:"MUST" absent:"not known yet"`
	// FailureReason and FailureMessage are a failure that does not go away by itself. The contract has dropped both in
	// v1beta2; Cluster API still reads them.
	FailureReason, FailureMessage Field[string] `by:"provider" need:"MAY" absent:"no failure"`
	// Conditions hold a Ready condition. The list of a provider in transition (status.v1beta2.conditions) goes first.
	Conditions ConditionsField `by:"provider" need:"SHOULD" absent:"none, and the owner goes by the flag"`
}

// BootstrapConfigState is what a BootstrapConfig says.
type BootstrapConfigState struct {
	// DataSecretCreated is false while the object does not say.
	DataSecretCreated bool
	// DataSecretName is absent while the object does not say. An empty name breaks the contract once the data is created.
	DataSecretName Opt[string]
	// FailureReason and FailureMessage are empty without a failure.
	FailureReason, FailureMessage string
	// Ready is the condition of that type. One that cannot be read is Unknown with ReasonInvalidCondition.
	Ready Opt[metav1.Condition]
	// Unreadable says what could not be read and holds nothing up, nil when there is nothing like that: a name of another
	// type before the data is created. It matches ErrWrongType.
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

// Read fills every field of into from the object; it neither changes nor keeps obj, and allocates nothing while times are
// in UTC. The error names the object and matches ErrWrongType or ErrUnknownVersion; discard into after an error. The
// name is due once the data is created: before, one that cannot be read is absent and said in Unreadable.
func (l *BootstrapConfigLayout) Read(obj *unstructured.Unstructured, into *BootstrapConfigState) error {
	if l == nil {
		return unknownVersion(obj)
	}
	return breaks(obj, l.Version, l.read(obj.Object, into))
}

func (l *BootstrapConfigLayout) read(obj map[string]any, into *BootstrapConfigState) error {
	r := &reader{obj: obj} // stays on the stack: nothing below keeps it
	into.DataSecretCreated = value(r, l.DataSecretCreated).Or(false)
	into.FailureReason = text(r, l.FailureReason)
	into.FailureMessage = text(r, l.FailureMessage)
	into.Ready = mirrored(l.Conditions, obj, ConditionReady)
	into.Unreadable = nil
	if r.err != nil {
		return r.err
	}
	into.DataSecretName = value(r, l.DataSecretName)
	r.spareUnless(into.DataSecretCreated, &into.Unreadable)
	return r.err
}

// InfraMachinePoolLayout says where an InfraMachinePool of one contract version keeps what a MachinePool reads of it.
// Rule: contract page "InfraMachinePool". The tags are those of MachineLayout and say what the contract demands.
type InfraMachinePoolLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// Provisioned is true once the group exists. One of the two flags is enough, see InfraMachinePoolState.
	Provisioned         Field[bool] `by:"provider" need:"MUST" absent:"what the fallback says"`
	ProvisionedFallback Field[bool] `by:"provider" need:"MAY" absent:"not yet"`
	// ProviderIDList has the ID of every machine of the group. Due once provisioned.
	ProviderIDList Field[[]string] `by:"provider" need:"MUST" absent:"not known yet; none where replicas is 0"`
	// Replicas is how many machines there are. Due once provisioned.
	Replicas Field[int32] `by:"provider" need:"MUST" absent:"what the MachinePool says stays"`
	// InfrastructureMachineKind is the kind of the InfraMachines that stand for the machines, for a provider that makes
	// some. Due once provisioned.
	InfrastructureMachineKind Field[string] `by:"provider" need:"MAY" absent:"no Machines for the machines of the group"`
	// FailureReason and FailureMessage are a failure that does not go away by itself. The contract has dropped both in
	// v1beta2; Cluster API still reads them.
	FailureReason, FailureMessage Field[string] `by:"provider" need:"MAY" absent:"no failure"`
	// Conditions hold a Ready condition. The list of a provider in transition (status.v1beta2.conditions) goes first.
	Conditions ConditionsField `by:"provider" need:"SHOULD" absent:"none, and the owner goes by the flag"`
}

// InfraMachinePoolState is what an InfraMachinePool says. It shares strings with the object, nothing that can change.
type InfraMachinePoolState struct {
	// Provisioned is true when status.initialization.provisioned is, or status.ready, in every contract version: the page
	// names the first, Cluster API reads only the second, and providers write what works. One that takes status.ready back
	// while it scales does not take back that the group exists.
	Provisioned bool
	// ProviderIDList are the IDs in the order of the object; HasProviderIDList is false when it has no list. Listed says what
	// that means.
	ProviderIDList    []string
	HasProviderIDList bool
	// Replicas is absent while the object does not say, which is not 0.
	Replicas Opt[int32]
	// InfrastructureMachineKind is empty unless the provider makes an InfraMachine for every machine.
	InfrastructureMachineKind string
	// FailureReason and FailureMessage are empty without a failure.
	FailureReason, FailureMessage string
	// Ready is the condition of that type. One that cannot be read is Unknown with ReasonInvalidCondition.
	Ready Opt[metav1.Condition]
	// Unreadable says what could not be read and holds nothing up, nil when there is nothing like that: what is due once
	// provisioned, before. It matches ErrWrongType.
	Unreadable error
}

// Listed reports whether the object names its machines: they are those in the list, which may be missing or empty, and then there are
// none. A provider whose Go type drops an empty list (providerIDList,omitempty, as in the contract's own type) says that there are none by
// status.replicas alone, which is 0; beside any other number a missing or empty list is one that is not known yet. Rule: contract page
// "InfraMachinePool", providerIDList and replicas.
func (s *InfraMachinePoolState) Listed() bool {
	if n, told := s.Replicas.Get(); len(s.ProviderIDList) == 0 && told {
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

// Read fills every field of into from the object, reusing its slices; it neither changes nor keeps obj. It allocates
// nothing when the slices are large enough and times are in UTC. The error names the object and matches ErrWrongType or
// ErrUnknownVersion; discard into after an error. IDs, replicas and the kind are due once the group is provisioned:
// before, what cannot be read is absent and said in Unreadable.
func (l *InfraMachinePoolLayout) Read(obj *unstructured.Unstructured, into *InfraMachinePoolState) error {
	if l == nil {
		return unknownVersion(obj)
	}
	return breaks(obj, l.Version, l.read(obj.Object, into))
}

func (l *InfraMachinePoolLayout) read(obj map[string]any, into *InfraMachinePoolState) error {
	r := &reader{obj: obj} // stays on the stack: nothing below keeps it
	into.Provisioned = r.either(l.Provisioned, l.ProvisionedFallback)
	into.FailureReason = text(r, l.FailureReason)
	into.FailureMessage = text(r, l.FailureMessage)
	into.Ready = mirrored(l.Conditions, obj, ConditionReady)
	into.Unreadable = nil
	if r.err != nil {
		return r.err
	}
	into.ProviderIDList, into.HasProviderIDList = r.textList(l.ProviderIDList, into.ProviderIDList)
	r.spareUnless(into.Provisioned, &into.Unreadable)
	into.Replicas = value(r, l.Replicas)
	r.spareUnless(into.Provisioned, &into.Unreadable)
	into.InfrastructureMachineKind = text(r, l.InfrastructureMachineKind)
	r.spareUnless(into.Provisioned, &into.Unreadable)
	return r.err
}

// textList reads texts into the slice of a state.
func (r *reader) textList(f Field[[]string], into []string) (texts []string, found bool) {
	texts, found, err := textsAt(f.path, r.obj, into)
	r.fail(err)
	return texts, found
}
