package contract

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// InfraMachineLayout says where an InfraMachine of one contract version keeps what a Machine reads of it.
// Rule: contract page "InfraMachine". The tables returned by InfraMachine are shared: copy one to change it. The tags are
// those of MachineLayout and say what the contract demands.
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
	FailureReason  Field[string] `by:"provider" need:"MAY" absent:"no failure"`
	FailureMessage Field[string] `by:"provider" need:"MAY" absent:"no failure"`
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

var infraMachineTables = tablesOf(
	func(v Version) InfraMachineLayout {
		l := infraMachineSinceV1Beta2(v)
		l.Provisioned = At[bool]("status", "ready")
		return l
	},
	infraMachineSinceV1Beta2,
)

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

// InfraMachine returns the layout of a contract version, nil for one that is not supported. The table is shared and must
// not be changed; copy it to make a dialect.
func InfraMachine(v Version) *InfraMachineLayout { return infraMachineTables[v] }

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
