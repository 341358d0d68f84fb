package contract

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// InfraMachinePoolLayout says where an InfraMachinePool of one contract version keeps what a MachinePool reads of it.
// Rule: contract page "InfraMachinePool". The tables returned by InfraMachinePool are shared: copy one to change it. The
// tags are those of MachineLayout and say what the contract demands.
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
	FailureReason  Field[string] `by:"provider" need:"MAY" absent:"no failure"`
	FailureMessage Field[string] `by:"provider" need:"MAY" absent:"no failure"`
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

var infraMachinePoolTables = tablesOf(
	func(v Version) InfraMachinePoolLayout {
		l := infraMachinePoolSinceV1Beta2(v)
		l.Provisioned, l.ProvisionedFallback = l.ProvisionedFallback, l.Provisioned
		return l
	},
	infraMachinePoolSinceV1Beta2,
)

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

// InfraMachinePool returns the layout of a contract version, nil for one that is not supported. The table is shared and
// must not be changed; copy it to make a dialect.
func InfraMachinePool(v Version) *InfraMachinePoolLayout { return infraMachinePoolTables[v] }

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
