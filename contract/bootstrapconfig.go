package contract

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// CertificatesExpiryAnnotation on a BootstrapConfig or a Machine of a control plane says when the certificates of the machine
// end, as an RFC 3339 time. What the Machine says goes first. Rule: Cluster API's automatic certificate rotation.
const CertificatesExpiryAnnotation = "machine.cluster.x-k8s.io/certificates-expiry"

// BootstrapConfigLayout says where a BootstrapConfig of one contract version keeps what a Machine reads of it.
// Rule: contract page "BootstrapConfig". The tables returned by BootstrapConfig are shared: copy one to change it. The tags
// are those of MachineLayout and say what the contract demands.
type BootstrapConfigLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// DataSecretCreated is true once the bootstrap data can be used.
	DataSecretCreated Field[bool] `by:"provider" need:"MUST" absent:"not yet"`
	// DataSecretName names the Secret in the namespace of the Machine. Due once created.
	DataSecretName Field[string] `by:"provider" need:"MUST" absent:"not known yet"`
	// FailureReason and FailureMessage are a failure that does not go away by itself. The contract has dropped both in
	// v1beta2; Cluster API still reads them.
	FailureReason  Field[string] `by:"provider" need:"MAY" absent:"no failure"`
	FailureMessage Field[string] `by:"provider" need:"MAY" absent:"no failure"`
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

var bootstrapConfigTables = tablesOf(
	func(v Version) BootstrapConfigLayout {
		l := bootstrapConfigSinceV1Beta2(v)
		l.DataSecretCreated = At[bool]("status", "ready")
		return l
	},
	bootstrapConfigSinceV1Beta2,
)

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

// BootstrapConfig returns the layout of a contract version, nil for one that is not supported. The table is shared and
// must not be changed; copy it to make a dialect.
func BootstrapConfig(v Version) *BootstrapConfigLayout { return bootstrapConfigTables[v] }

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
