package contract

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Keys that Cluster API has given a meaning, and that machines of any shape share.
const (
	// ClusterNameLabel names the Cluster that an object belongs to.
	ClusterNameLabel = "cluster.x-k8s.io/cluster-name"
	// PausedAnnotation, with any value, asks reconcilers to leave an object alone.
	PausedAnnotation = "cluster.x-k8s.io/paused"
	// MachineFinalizer keeps a Machine until everything of it is gone.
	MachineFinalizer = "machine.cluster.x-k8s.io"
	// ExcludeDrain, an annotation with any value, has a Machine deleted without draining its Node.
	ExcludeDrain = "machine.cluster.x-k8s.io/exclude-node-draining"
	// ExcludeVolumeDetach, an annotation with any value, has a Machine deleted without waiting for its Node's volumes.
	ExcludeVolumeDetach = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach"
	// InPlaceUpdateAnnotation, with any value, says that a Machine is being updated in place.
	InPlaceUpdateAnnotation = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress"
	// PendingHooksAnnotation holds the names of the runtime hooks that are still to be called for an object, separated by commas;
	// UpdateMachine among them says that a Machine is being updated in place.
	PendingHooksAnnotation = "runtime.cluster.x-k8s.io/pending-hooks"
	// PreDrainHook and PreTerminateHook are prefixes of annotations that hold deletion up before drain, and before the
	// infrastructure is deleted. Rule: Cluster API proposal "machine deletion phase hooks".
	PreDrainHook     = "pre-drain.delete.hook.machine.cluster.x-k8s.io"
	PreTerminateHook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io"
)

// Annotations of this module, for state of a Machine that the schema of its shape has no field for.
const (
	// NodeUIDAnnotation holds the UID of the matched Node, which tells it from a later Node of the same name.
	NodeUIDAnnotation = "machinist.dev/node-uid"
	// InPlaceAnnotation says how far the update in place of a Machine is: an InPlace as text.
	InPlaceAnnotation = "machinist.dev/in-place"
	// DrainStartedAnnotation is when the drain of a Node of a pool began, followed by the word cordoned where it was the pool that cordoned
	// the Node, and DrainedAnnotation the UID of that Node when it was drained. The pool writes both on the Node; a provider may then delete
	// its instance.
	DrainStartedAnnotation = "machinist.dev/drain-started"
	DrainedAnnotation      = "machinist.dev/drained-node-uid"
	// dataSecretAnnotation names the Secret with the bootstrap data.
	dataSecretAnnotation = "machinist.dev/bootstrap-data-secret"
	// bootstrapReadyAnnotation and infrastructureReadyAnnotation say that the data exists, and the machine.
	bootstrapReadyAnnotation      = "machinist.dev/bootstrap-data-secret-created"
	infrastructureReadyAnnotation = "machinist.dev/infrastructure-provisioned"
	// failureDomainAnnotation says where the machine really is.
	failureDomainAnnotation = "machinist.dev/failure-domain"
	// failureReasonAnnotation and failureMessageAnnotation hold a failure that does not go away by itself.
	failureReasonAnnotation  = "machinist.dev/failure-reason"
	failureMessageAnnotation = "machinist.dev/failure-message"
)

// ReadinessGate is a further condition that a Machine must have to be Ready.
type ReadinessGate struct {
	// ConditionType is the type of the condition.
	ConditionType string
	// Negative says that the condition must be False.
	Negative bool
}

// Taint is a taint that a Machine wants on its Node.
type Taint struct {
	Key, Value, Effect string
	// Propagation is Always or OnInitialization; empty counts as Always. Rule: Cluster API proposal 20250513.
	Propagation string
}

// ProviderSpec is what a machine is made of where that is inside the Machine, or in a class of it, rather than in an
// infrastructure object.
type ProviderSpec struct {
	// Spec is the provider's own content as JSON, nil without.
	Spec json.RawMessage
	// Class is an object that several Machines share, the zero Ref without.
	Class Ref
}

// MachineSpec is what a user, a set or a template asks for. Strings, maps and slices are read-only views.
type MachineSpec struct {
	ClusterName               string
	Bootstrap, Infrastructure Ref
	Provider                  ProviderSpec
	// DataSecretName is absent until the bootstrap data exists; the empty name is a value of its own.
	DataSecretName Opt[string]
	ProviderID     string
	// Version is the Kubernetes version, with its leading v.
	Version string
	// WantedFailureDomain is the desired failure domain. Shapes with one field for both store the actual one there.
	WantedFailureDomain string
	// Timeouts are absent for "no value given"; zero means no limit.
	NodeDrainTimeout, NodeVolumeDetachTimeout, NodeDeletionTimeout Opt[time.Duration]
	// MinReady is how long a Node must be ready for the Machine to be available; absent counts as zero.
	MinReady       Opt[time.Duration]
	ReadinessGates []ReadinessGate
	Taints         []Taint
	// NodeLabels and NodeAnnotations are for the Node alone, whatever their keys. Cluster API has none: there the Node gets some of the
	// Machine's own. The Nodes of a pool get none of them.
	NodeLabels, NodeAnnotations map[string]string
}

// MachineState is everything that a decision about a Machine may need, whatever shape the object has. Strings, maps and
// slices are read-only views.
type MachineState struct {
	Metadata
	MachineSpec

	Phase                               string
	Node                                NodeRef
	BootstrapReady, InfrastructureReady Opt[bool]
	Addresses                           []Address
	// FailureDomain is where the machine is.
	FailureDomain      string
	Conditions         []metav1.Condition
	ObservedGeneration int64
	LastUpdated        time.Time
	// DrainStarted and VolumeDetachStarted are when these stages of a deletion began, zero before. They are Cluster API's; Deletion records
	// the same for kinds without a field for it.
	DrainStarted, VolumeDetachStarted time.Time
	// FailureReason and FailureMessage are a failure that does not go away by itself. Cluster API has deprecated both.
	FailureReason, FailureMessage string
	// CertificatesExpire is when the certificates of a control plane machine end, zero when unknown.
	CertificatesExpire time.Time
}

// updateHook is the runtime hook that updates a machine in place.
const updateHook = "UpdateMachine"

// UpdatingInPlace reports whether the owner of the Machine has marked it as being updated in place: it has InPlaceUpdateAnnotation,
// or the hook is still to be called for it. Rule: Cluster API proposal 20240807, "in-place updates".
func (s *MachineState) UpdatingInPlace() bool {
	_, marked := s.Annotations[InPlaceUpdateAnnotation]
	return marked || ReadInPlace(s.Annotations).State == InPlaceSelected ||
		slices.Contains(strings.Split(s.Annotations[PendingHooksAnnotation], ","), updateHook)
}

// InPlace says how far the update in place of a Machine is. The zero value is none.
type InPlace struct {
	// State is one of the values InPlaceCandidate to InPlaceMoved.
	State string
	// Set is the name of the MachineSet whose template the Machine is to get.
	Set string
}

// ReadInPlace reads the annotations of a Machine. A text that is not a known state, a slash and a name counts as none.
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

// Values of InPlace.State. A MachineDeployment writes the first two and the last one. The update hook, a step or another controller, brings
// a selected Machine to the template of the set, its spec included, and then writes InPlaceUpdated or InPlaceFailed with the same set.
const (
	// InPlaceCandidate: the Machine may be selected: by the deployment, or by the user with OrchestrationManual.
	InPlaceCandidate = "candidate"
	// InPlaceSelected: the update hook is at work.
	InPlaceSelected = "selected"
	// InPlaceUpdated: the update has succeeded.
	InPlaceUpdated = "updated"
	// InPlaceFailed: the update has failed. It is selected again when a person writes InPlaceSelected for the same set, or the template
	// changes.
	InPlaceFailed = "failed"
	// InPlaceMoved: the set controls the Machine now, and is about to count it.
	InPlaceMoved = "moved"
)

// MachineUpdate is what a pass wants to change. The zero update changes nothing. Where MachineState has no Opt, zero and
// absent are the same to every reader, and setting the zero value removes the field: the schemas of Machines refuse empty
// texts.
type MachineUpdate struct {
	MetadataUpdate

	ProviderID     Change[string]
	DataSecretName Change[string]
	// WantedFailureDomain is spec.failureDomain of the InfraMachine, where it has one: where its provider has placed the machine.
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

	// Conditions are upserted by type; the others of the list stay. An empty reason becomes ReasonNotReported.
	Conditions []metav1.Condition
	// RemoveConditions are types to remove.
	RemoveConditions []string
}

// Kind is a kind of Machine and how to read it.
type Kind = KindOf[MachineState, MachineUpdate]

// MachineLayout says where a Machine of one shape keeps its state: the fields of MachineState and MachineUpdate with the
// same names. A zero Field is "no such place": it reads as absent and what is written there is lost, so give state that
// the schema has no field for an annotation (AtAnnotation); how far a deletion is has one without being told.
//
// The tags say who writes a field and what it means when it is missing.
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
	r := &reader{obj: obj} // stays on the stack: nothing below keeps it
	r.metadata(&into.Metadata)
	l.MachineSpecLayout.read(r, &into.MachineSpec)
	into.Phase = text(r, l.Phase)
	into.Node = NodeRef{Name: text(r, l.NodeName), UID: types.UID(text(r, l.NodeUID))}
	into.BootstrapReady = value(r, l.BootstrapReady)
	into.InfrastructureReady = value(r, l.InfrastructureReady)
	into.Addresses = readEntries(r, l.Addresses.path, into.Addresses, readAddress)
	into.FailureDomain = text(r, l.FailureDomain)
	into.Conditions = r.conditions(l.Conditions, into.Conditions)
	into.ObservedGeneration = value(r, l.ObservedGeneration).Or(0)
	into.LastUpdated = r.time(l.LastUpdated)
	into.DrainStarted, into.VolumeDetachStarted = r.time(l.DrainStarted), r.time(l.VolumeDetachStarted)
	into.FailureReason = text(r, l.FailureReason)
	into.FailureMessage = text(r, l.FailureMessage)
	into.CertificatesExpire = r.time(l.CertificatesExpire)
	return r.err
}

func (l *MachineLayout) write(obj map[string]any, u MachineUpdate) error {
	w := &writer{obj: obj}
	w.metadata(u.MetadataUpdate)
	put(w, l.ProviderID, orClear(u.ProviderID))
	put(w, l.DataSecretName, u.DataSecretName) // an Opt in the state: the empty name is a value
	put(w, l.Phase, orClear(u.Phase))
	l.writeNode(w, u.Node)
	put(w, l.BootstrapReady, u.BootstrapReady)
	put(w, l.InfrastructureReady, u.InfrastructureReady)
	putList(w, l.Addresses.path, u.Addresses, addressContent)
	put(w, l.FailureDomain, orClear(u.FailureDomain))
	put(w, l.WantedFailureDomain, orClear(u.WantedFailureDomain)) // it may be the same field
	w.conditions(l.Conditions, u.Conditions, u.RemoveConditions)
	put(w, l.ObservedGeneration, orClear(u.ObservedGeneration))
	put(w, l.LastUpdated, orClear(u.LastUpdated))
	put(w, l.DrainStarted, orClear(u.DrainStarted))
	put(w, l.VolumeDetachStarted, orClear(u.VolumeDetachStarted))
	put(w, l.FailureReason, orClear(u.FailureReason))
	put(w, l.FailureMessage, orClear(u.FailureMessage))
	put(w, l.CertificatesExpire, orClear(u.CertificatesExpire))
	return w.err
}

// writeNode writes the members of the reference together: where it says of what kind it is, it says so as long as it
// names a Node.
func (l *MachineLayout) writeNode(w *writer, node Change[NodeRef]) {
	put(w, l.NodeName, orClear(mapped(node, func(n NodeRef) string { return n.Name })))
	put(w, l.NodeUID, orClear(mapped(node, func(n NodeRef) string { return string(n.UID) })))
	constant := func(text string) Change[string] {
		return orClear(mapped(node, func(n NodeRef) string {
			if n.Name == "" {
				return ""
			}
			return text
		}))
	}
	put(w, l.NodeKind, constant("Node"))
	put(w, l.NodeAPIVersion, constant("v1"))
}

// machineV1Beta2 has the UID of the Node, for which that schema has no field, in an annotation.
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

// machineV1Beta1 has one field for the failure domain that is wanted and the one that is.
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
