package contract

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InstanceResumeAnnotation of an InfraMachine holds JSON that the Driver of a cloud gets back in its next call: data that identifies an
// instance without a provider ID.
const InstanceResumeAnnotation = "machinist.dev/instance-resume"

// ProvidedMachineState is an InfraMachine as its own provider reads it; InfraMachineState is the part that a Machine reads. Strings, maps
// and slices are read-only views.
type ProvidedMachineState struct {
	Metadata
	// ClusterName is the value of the label cluster.x-k8s.io/cluster-name, which the controller of the Machine sets.
	ClusterName string
	// Spec is the spec as JSON, including fields that the provider has written; nil when absent.
	Spec json.RawMessage

	ProviderID string
	// Resume is the value of InstanceResumeAnnotation, nil when absent.
	Resume        json.RawMessage
	Provisioned   Opt[bool]
	Addresses     []Address
	FailureDomain string
	// FailureReason and FailureMessage are a permanent failure. Contract v1beta2 has dropped both.
	FailureReason, FailureMessage string

	Conditions         []metav1.Condition
	ObservedGeneration int64
}

// ProvidedMachineUpdate holds the changes of a provider's pass to an InfraMachine. The zero update changes nothing. For members that are
// not an Opt in ProvidedMachineState, zero and absent are equivalent, and setting the zero value removes the field.
type ProvidedMachineUpdate struct {
	MetadataUpdate

	// ProviderID and Resume identify the instance in later passes.
	ProviderID Change[string]
	Resume     Change[json.RawMessage]

	Provisioned                   Change[bool]
	Addresses                     Change[[]Address]
	FailureDomain                 Change[string]
	FailureReason, FailureMessage Change[string]

	// Conditions are upserted by type; other conditions do not change. An empty reason becomes ReasonNotReported.
	Conditions []metav1.Condition
	// RemoveConditions lists the types to remove.
	RemoveConditions   []string
	ObservedGeneration Change[int64]
}

// InfraMachineKind is a kind of InfraMachine with the Adapter of its provider.
type InfraMachineKind = KindOf[ProvidedMachineState, ProvidedMachineUpdate]

// ProvidedMachineLayout locates the fields of an InfraMachine that its provider writes, in one contract version. As in a MachineLayout, a
// zero Field has no place. A CRD of a contract before v1beta2 needs status.conditions and status.v1beta2.conditions: both are written.
// Rule: contract page "InfraMachine".
type ProvidedMachineLayout struct {
	ClusterName                   Field[string]          `by:"controller" absent:"no Cluster"`
	Spec                          Field[json.RawMessage] `by:"user" absent:"none"`
	ProviderID                    Field[string]          `by:"provider" need:"MUST" absent:"not known yet"`
	Resume                        Field[string]          `by:"provider" absent:"none"`
	Provisioned                   Field[bool]            `by:"provider" need:"MUST" absent:"not yet"`
	Addresses                     Field[[]Address]       `by:"provider" need:"MAY" absent:"none known"`
	FailureDomain                 Field[string]          `by:"provider" need:"MAY" absent:"unknown"`
	FailureReason, FailureMessage Field[string]          `by:"provider" need:"MAY" absent:"no failure"`
	Conditions                    ConditionsField        `by:"provider" need:"SHOULD" absent:"none"`
	ObservedGeneration            Field[int64]           `by:"provider" absent:"0: never looked at"`
}

func providedMachineSinceV1Beta2(v Version) ProvidedMachineLayout {
	reads := infraMachineSinceV1Beta2(v)
	return ProvidedMachineLayout{
		ClusterName: At[string]("metadata", "labels", ClusterNameLabel), Spec: At[json.RawMessage]("spec"),
		ProviderID: reads.ProviderID, Resume: AtAnnotation[string](InstanceResumeAnnotation), Provisioned: reads.Provisioned,
		Addresses: reads.Addresses, FailureDomain: reads.FailureDomain, Conditions: ConditionsAt("status", "conditions"),
	}
}

// providedMachineBefore: the provider overwrites the desired failure domain, reports failures, and has conditions of two shapes.
func providedMachineBefore(v Version) ProvidedMachineLayout {
	reads, l := infraMachineBefore(v), providedMachineSinceV1Beta2(v)
	l.Provisioned, l.FailureDomain = At[bool]("status", "ready"), reads.FailureDomainFallback
	l.FailureReason, l.FailureMessage = reads.FailureReason, reads.FailureMessage
	l.Conditions = conditionsV1Beta1()
	return l
}

func (l *ProvidedMachineLayout) read(obj map[string]any, into *ProvidedMachineState) error {
	x := &exchange{obj: obj}
	l.walk(x, into, &ProvidedMachineUpdate{})
	return x.err
}

func (l *ProvidedMachineLayout) write(obj map[string]any, u ProvidedMachineUpdate) error {
	x := &exchange{obj: obj, writes: true}
	l.walk(x, &ProvidedMachineState{}, &u)
	return x.err
}

func (l *ProvidedMachineLayout) walk(x *exchange, s *ProvidedMachineState, u *ProvidedMachineUpdate) {
	x.metadata(&s.Metadata, &u.MetadataUpdate)
	load(x, l.ClusterName, &s.ClusterName)
	load(x, l.Spec, &s.Spec)
	plain(x, l.ProviderID, &s.ProviderID, u.ProviderID)
	s.Resume = nil
	if resume := text(x, l.Resume); resume != "" {
		s.Resume = json.RawMessage(resume)
	}
	put(x, l.Resume, orClear(mapped(u.Resume, func(content json.RawMessage) string { return string(content) })))
	distinct(x, l.Provisioned, &s.Provisioned, u.Provisioned)
	plain(x, l.Addresses, &s.Addresses, u.Addresses)
	plain(x, l.FailureDomain, &s.FailureDomain, u.FailureDomain)
	plain(x, l.FailureReason, &s.FailureReason, u.FailureReason)
	plain(x, l.FailureMessage, &s.FailureMessage, u.FailureMessage)
	x.conditions(l.Conditions, &s.Conditions, u.Conditions, u.RemoveConditions)
	plain(x, l.ObservedGeneration, &s.ObservedGeneration, u.ObservedGeneration)
}
