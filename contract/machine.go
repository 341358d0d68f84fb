package contract

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Keys of Cluster API that Machines of any shape share.
const (
	// ClusterNameLabel names the Cluster that an object belongs to.
	ClusterNameLabel = "cluster.x-k8s.io/cluster-name"
	// PausedAnnotation, with any value, pauses the reconciliation of an object.
	PausedAnnotation = "cluster.x-k8s.io/paused"
	// MachineFinalizer prevents the removal of a Machine until everything that belongs to it is gone.
	MachineFinalizer = "machine.cluster.x-k8s.io"
	// ExcludeDrain, an annotation with any value, skips the drain of the Node when the Machine is deleted.
	ExcludeDrain = "machine.cluster.x-k8s.io/exclude-node-draining"
	// ExcludeVolumeDetach, an annotation with any value, skips the wait for the volumes of the Node when the Machine is deleted.
	ExcludeVolumeDetach = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach"
	// InPlaceUpdateAnnotation, with any value, marks a Machine that is being updated in place.
	InPlaceUpdateAnnotation = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress"
	// PendingHooksAnnotation holds the names of the runtime hooks that are not called yet for an object, separated by commas. UpdateMachine
	// among them means that the Machine is being updated in place.
	PendingHooksAnnotation = "runtime.cluster.x-k8s.io/pending-hooks"
	// PreDrainHook and PreTerminateHook are prefixes of annotations that block a deletion: before the drain, and before the infrastructure is
	// deleted. Rule: Cluster API proposal "machine deletion phase hooks".
	PreDrainHook     = "pre-drain.delete.hook.machine.cluster.x-k8s.io"
	PreTerminateHook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io"
)

// Annotations of this module, for state of a Machine without a field in its schema.
const (
	// NodeUIDAnnotation holds the UID of the matched Node, which distinguishes it from a later Node of the same name.
	NodeUIDAnnotation = "machinist.dev/node-uid"
	// InPlaceAnnotation holds the progress of the in-place update of a Machine: an InPlace as text.
	InPlaceAnnotation = "machinist.dev/in-place"
	// DrainStartedAnnotation, on a Node of a pool, holds when its drain started, followed by the word cordoned when the pool cordoned the
	// Node. DrainedAnnotation holds the UID of the Node once it is drained. The pool writes both; when DrainedAnnotation is set, a provider
	// may delete the instance.
	DrainStartedAnnotation = "machinist.dev/drain-started"
	DrainedAnnotation      = "machinist.dev/drained-node-uid"
	// dataSecretAnnotation names the Secret with the bootstrap data.
	dataSecretAnnotation = "machinist.dev/bootstrap-data-secret"
	// bootstrapReadyAnnotation and infrastructureReadyAnnotation are true when the bootstrap data exists, and when the machine exists.
	bootstrapReadyAnnotation      = "machinist.dev/bootstrap-data-secret-created"
	infrastructureReadyAnnotation = "machinist.dev/infrastructure-provisioned"
	// failureDomainAnnotation holds the actual failure domain of the machine.
	failureDomainAnnotation = "machinist.dev/failure-domain"
	// failureReasonAnnotation and failureMessageAnnotation hold a permanent failure.
	failureReasonAnnotation  = "machinist.dev/failure-reason"
	failureMessageAnnotation = "machinist.dev/failure-message"
)

// ReadinessGate is an additional condition that a Machine needs to be Ready.
type ReadinessGate struct {
	// ConditionType is the type of the condition.
	ConditionType string
	// Negative is true when the condition must be False.
	Negative bool
}

// Taint is a taint that the Node of a Machine gets.
type Taint struct {
	Key, Value, Effect string
	// Propagation is Always or OnInitialization; empty means Always. Rule: Cluster API proposal 20250513.
	Propagation string
}

// ProviderSpec describes a machine whose specification is in the Machine itself or in a class, rather than in an infrastructure object.
type ProviderSpec struct {
	// Spec is the provider's own content as JSON, nil when absent.
	Spec json.RawMessage
	// Class refers to an object that several Machines share; the zero Ref means none.
	Class Ref
}

// MachineSpec is the specification of a Machine by a user, a set or a template. Strings, maps and slices are read-only views.
type MachineSpec struct {
	ClusterName               string
	Bootstrap, Infrastructure Ref
	Provider                  ProviderSpec
	// DataSecretName is absent until the bootstrap data exists. The empty name is different from an absent one.
	DataSecretName Opt[string]
	ProviderID     string
	// Version is the Kubernetes version, with its leading v.
	Version string
	// WantedFailureDomain is the desired failure domain. Shapes with one field for both store the actual one there.
	WantedFailureDomain string
	// Timeouts are absent when not set; zero means no limit.
	NodeDrainTimeout, NodeVolumeDetachTimeout, NodeDeletionTimeout Opt[time.Duration]
	// MinReady is how long a Node must be ready for the Machine to be available; absent means zero.
	MinReady       Opt[time.Duration]
	ReadinessGates []ReadinessGate
	Taints         []Taint
	// NodeLabels and NodeAnnotations are for the Node only, whatever their keys. Cluster API has none: there the Node gets some of the
	// Machine's own. The Nodes of a pool get none of them.
	NodeLabels, NodeAnnotations map[string]string
}

// MachineState is everything that a decision about a Machine may need, independent of the shape of the object. Strings, maps and slices are
// read-only views.
type MachineState struct {
	Metadata
	MachineSpec

	Phase                               string
	Node                                NodeRef
	BootstrapReady, InfrastructureReady Opt[bool]
	Addresses                           []Address
	// FailureDomain is the actual failure domain of the machine.
	FailureDomain      string
	Conditions         []metav1.Condition
	ObservedGeneration int64
	LastUpdated        time.Time
	// DrainStarted and VolumeDetachStarted are when these stages of a deletion started, zero before. They are Cluster API's; for kinds without
	// these fields, Deletion holds the same times.
	DrainStarted, VolumeDetachStarted time.Time
	// FailureReason and FailureMessage are a permanent failure. Cluster API has deprecated both.
	FailureReason, FailureMessage string
	// CertificatesExpire is when the certificates of a control plane machine expire, zero when unknown.
	CertificatesExpire time.Time
}

// updateHook is the runtime hook that updates a machine in place.
const updateHook = "UpdateMachine"

// UpdatingInPlace reports whether the owner of the Machine has marked it as being updated in place: by InPlaceUpdateAnnotation, by
// InPlaceSelected, or by the pending hook UpdateMachine. Rule: Cluster API proposal 20240807, "in-place updates".
func (s *MachineState) UpdatingInPlace() bool {
	_, marked := s.Annotations[InPlaceUpdateAnnotation]
	return marked || ReadInPlace(s.Annotations).State == InPlaceSelected ||
		slices.Contains(strings.Split(s.Annotations[PendingHooksAnnotation], ","), updateHook)
}

// InPlace is the progress of the in-place update of a Machine. The zero value means no update.
type InPlace struct {
	// State is one of the values InPlaceCandidate to InPlaceMoved.
	State string
	// Set is the name of the MachineSet whose template the Machine is updated to.
	Set string
}

// ReadInPlace reads InPlaceAnnotation. It returns the zero InPlace unless the text is a known state, a slash and a name.
func ReadInPlace(annotations map[string]string) InPlace {
	state, set, _ := strings.Cut(annotations[InPlaceAnnotation], "/")
	switch state {
	case InPlaceCandidate, InPlaceSelected, InPlaceUpdated, InPlaceFailed, InPlaceMoved:
		if set != "" {
			return InPlace{State: state, Set: set}
		}
	}
	return InPlace{}
}

// String returns the value of InPlaceAnnotation, such as "selected/workers-abc".
func (p InPlace) String() string { return p.State + "/" + p.Set }

// Values of InPlace.State. A MachineDeployment writes the first two and the last one. The update hook, a step or another controller,
// updates a selected Machine, including its spec, to the template of the set. It then writes InPlaceUpdated or InPlaceFailed with the same
// set.
const (
	// InPlaceCandidate: the deployment may select the Machine, or, with OrchestrationManual, the user.
	InPlaceCandidate = "candidate"
	// InPlaceSelected: the update hook is updating the Machine.
	InPlaceSelected = "selected"
	// InPlaceUpdated: the update has succeeded.
	InPlaceUpdated = "updated"
	// InPlaceFailed: the update has failed. The Machine is selected again when a person writes InPlaceSelected for the same set, or when the
	// template changes.
	InPlaceFailed = "failed"
	// InPlaceMoved: the set controls the Machine now, and is about to count it.
	InPlaceMoved = "moved"
)

// MachineUpdate holds the changes of a pass. The zero update changes nothing. For members that are not an Opt in MachineState, zero and
// absent are equivalent, and setting the zero value removes the field: the schemas of Machines reject empty texts.
type MachineUpdate struct {
	MetadataUpdate

	ProviderID     Change[string]
	DataSecretName Change[string]
	// WantedFailureDomain is written to the spec. It is spec.failureDomain of the InfraMachine, where set: the domain in which its provider
	// placed the machine.
	WantedFailureDomain Change[string]

	Phase                               Change[string]
	Node                                Change[NodeRef]
	BootstrapReady, InfrastructureReady Change[bool]
	Addresses                           Change[[]Address]
	FailureDomain                       Change[string]
	ObservedGeneration                  Change[int64]
	LastUpdated                         Change[time.Time]
	DrainStarted, VolumeDetachStarted   Change[time.Time]
	FailureReason, FailureMessage       Change[string]
	CertificatesExpire                  Change[time.Time]

	// Conditions are upserted by type; other conditions do not change. An empty reason becomes ReasonNotReported.
	Conditions []metav1.Condition
	// RemoveConditions lists the types to remove.
	RemoveConditions []string
}

// Kind is a kind of Machine with its Adapter.
type Kind = KindOf[MachineState, MachineUpdate]

// MachineLayout locates the fields of a Machine of one shape. Its members correspond to those of MachineState and MachineUpdate. A zero
// Field has no place: it reads as absent, and writes to it are dropped, so use an annotation (AtAnnotation) for state without a field in
// the schema. The progress of a deletion is always in an annotation.
//
// In the tags, by is the writer of a field, and absent is the meaning of its absence.
type MachineLayout struct {
	MachineSpecLayout

	Phase                               Field[string]    `by:"controller" absent:"no phase yet"`
	NodeName                            Field[string]    `by:"controller" absent:"no Node was matched"`
	NodeUID                             Field[string]    `by:"controller" absent:"the Node was matched by a controller that does not store it"`
	NodeKind, NodeAPIVersion            Field[string]    `by:"controller" absent:"no Node was matched"`
	BootstrapReady, InfrastructureReady Field[bool]      `by:"controller" absent:"not yet"`
	Addresses                           Field[[]Address] `by:"controller" absent:"none known"`
	FailureDomain                       Field[string]    `by:"controller" absent:"unknown"`
	Conditions                          ConditionsField  `by:"controller" absent:"none"`
	ObservedGeneration                  Field[int64]     `by:"controller" absent:"0: never looked at"`
	LastUpdated                         Field[time.Time] `by:"controller" absent:"the phase never changed"`
	DrainStarted, VolumeDetachStarted   Field[time.Time] `by:"controller" absent:"not begun"`
	FailureReason, FailureMessage       Field[string]    `by:"controller" absent:"no failure"`
	CertificatesExpire                  Field[time.Time] `by:"controller" absent:"unknown"`
}

func (l *MachineLayout) read(obj map[string]any, into *MachineState) error {
	x := &exchange{obj: obj} // stays on the stack: nothing below retains it
	l.walk(x, into, &MachineUpdate{})
	return x.err
}

func (l *MachineLayout) write(obj map[string]any, u MachineUpdate) error {
	x := &exchange{obj: obj, writes: true}
	l.walk(x, &MachineState{}, &u)
	return x.err
}

func (l *MachineLayout) walk(x *exchange, s *MachineState, u *MachineUpdate) {
	x.metadata(&s.Metadata, &u.MetadataUpdate)
	l.MachineSpecLayout.read(x, &s.MachineSpec)
	put(x, l.ProviderID, orClear(u.ProviderID))
	put(x, l.DataSecretName, u.DataSecretName) // an Opt in the state: the empty name is valid
	plain(x, l.Phase, &s.Phase, u.Phase)
	s.Node = NodeRef{Name: text(x, l.NodeName), UID: types.UID(text(x, l.NodeUID))}
	l.writeNode(x, u.Node)
	distinct(x, l.BootstrapReady, &s.BootstrapReady, u.BootstrapReady)
	distinct(x, l.InfrastructureReady, &s.InfrastructureReady, u.InfrastructureReady)
	plain(x, l.Addresses, &s.Addresses, u.Addresses)
	plain(x, l.FailureDomain, &s.FailureDomain, u.FailureDomain)
	put(x, l.WantedFailureDomain, orClear(u.WantedFailureDomain)) // after FailureDomain, because it may be the same field
	x.conditions(l.Conditions, &s.Conditions, u.Conditions, u.RemoveConditions)
	plain(x, l.ObservedGeneration, &s.ObservedGeneration, u.ObservedGeneration)
	plain(x, l.LastUpdated, &s.LastUpdated, u.LastUpdated)
	plain(x, l.DrainStarted, &s.DrainStarted, u.DrainStarted)
	plain(x, l.VolumeDetachStarted, &s.VolumeDetachStarted, u.VolumeDetachStarted)
	plain(x, l.FailureReason, &s.FailureReason, u.FailureReason)
	plain(x, l.FailureMessage, &s.FailureMessage, u.FailureMessage)
	plain(x, l.CertificatesExpire, &s.CertificatesExpire, u.CertificatesExpire)
}

// writeNode writes the members of the reference together: in shapes with kind and apiVersion, both are set exactly when the reference names
// a Node.
func (l *MachineLayout) writeNode(x *exchange, node Change[NodeRef]) {
	put(x, l.NodeName, orClear(mapped(node, func(n NodeRef) string { return n.Name })))
	put(x, l.NodeUID, orClear(mapped(node, func(n NodeRef) string { return string(n.UID) })))
	constant := func(text string) Change[string] {
		return orClear(mapped(node, func(n NodeRef) string {
			if n.Name == "" {
				return ""
			}
			return text
		}))
	}
	put(x, l.NodeKind, constant("Node"))
	put(x, l.NodeAPIVersion, constant("v1"))
}

// machineV1Beta2 stores the UID of the Node in an annotation, because the schema has no field for it.
var machineV1Beta2 = MachineLayout{
	MachineSpecLayout:   machineSpecV1Beta2("spec"),
	Phase:               At[string]("status", "phase"),
	NodeName:            At[string]("status", "nodeRef", "name"),
	NodeUID:             AtAnnotation[string](NodeUIDAnnotation),
	FailureDomain:       At[string]("status", "failureDomain"),
	BootstrapReady:      At[bool]("status", "initialization", "bootstrapDataSecretCreated"),
	InfrastructureReady: At[bool]("status", "initialization", "infrastructureProvisioned"),
	Addresses:           At[[]Address]("status", "addresses"),
	Conditions:          ConditionsAt("status", "conditions"),
	ObservedGeneration:  At[int64]("status", "observedGeneration"),
	LastUpdated:         At[time.Time]("status", "lastUpdated"),
	DrainStarted:        At[time.Time]("status", "deletion", "nodeDrainStartTime"),
	VolumeDetachStarted: At[time.Time]("status", "deletion", "waitForNodeVolumeDetachStartTime"),
	FailureReason:       At[string]("status", "deprecated", "v1beta1", "failureReason"),
	FailureMessage:      At[string]("status", "deprecated", "v1beta1", "failureMessage"),
	CertificatesExpire:  At[time.Time]("status", "certificatesExpiryDate"),
}

// machineV1Beta1 has one field for both the desired and the actual failure domain.
var machineV1Beta1 = func() MachineLayout {
	l := machineV1Beta2
	l.MachineSpecLayout = machineSpecV1Beta1("spec")
	l.NodeUID = At[string]("status", "nodeRef", "uid")
	l.NodeKind, l.NodeAPIVersion = At[string]("status", "nodeRef", "kind"), At[string]("status", "nodeRef", "apiVersion")
	l.FailureDomain = At[string]("spec", "failureDomain")
	l.BootstrapReady, l.InfrastructureReady = At[bool]("status", "bootstrapReady"), At[bool]("status", "infrastructureReady")
	l.Conditions = conditionsV1Beta1()
	l.FailureReason, l.FailureMessage = At[string]("status", "failureReason"), At[string]("status", "failureMessage")
	return l
}()
