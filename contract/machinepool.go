package contract

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MachinePoolState is everything that a decision about a MachinePool may need, independent of the shape of the object. Strings, maps and
// slices are read-only views.
type MachinePoolState struct {
	Metadata
	ReplicatedState

	// ProviderIDs are those of the instances of the pool, in the order of the provider's list, up to 10,000.
	ProviderIDs []string

	Phase string
	// Nodes are the matched Nodes, up to 10,000. The UID is empty when the writer of the list did not have it.
	Nodes                               []NodeRef
	BootstrapReady, InfrastructureReady Opt[bool]
	// UnavailableReplicas counts by Nodes, like NodeAvailableReplicas. Cluster API has deprecated it.
	UnavailableReplicas Opt[int32]
	// FailureReason and FailureMessage are a permanent failure. Cluster API has deprecated both.
	FailureReason, FailureMessage string
}

// MachinePoolUpdate holds the changes of a pass. The zero update changes nothing. For members that are not an Opt in MachinePoolState, zero
// and absent are equivalent, and setting the zero value removes the field.
type MachinePoolUpdate struct {
	MetadataUpdate
	ReplicatedUpdate

	// ProviderIDs replaces the list.
	ProviderIDs Change[[]string]
	// DataSecretName is that of the template. The empty name is different from an absent one.
	DataSecretName Change[string]

	Phase Change[string]
	// Nodes replaces the list.
	Nodes                               Change[[]NodeRef]
	BootstrapReady, InfrastructureReady Change[bool]
	UnavailableReplicas                 Change[int32]
	FailureReason, FailureMessage       Change[string]
}

// MachinePoolKind is a kind of MachinePool with its Adapter.
type MachinePoolKind = KindOf[MachinePoolState, MachinePoolUpdate]

// MachinePoolLayout locates the fields of a MachinePool of one shape. Its members correspond to those of MachinePoolState and
// MachinePoolUpdate. As in a MachineLayout, a zero Field has no place.
type MachinePoolLayout struct {
	ReplicatedLayout

	ProviderIDs                         Field[[]string]  `by:"controller" absent:"none known"`
	Phase                               Field[string]    `by:"controller" absent:"no phase yet"`
	Nodes                               Field[[]NodeRef] `by:"controller" absent:"no Node was matched"`
	BootstrapReady, InfrastructureReady Field[bool]      `by:"controller" absent:"not yet"`
	UnavailableReplicas                 Field[int32]     `by:"controller" absent:"unknown"`
	FailureReason, FailureMessage       Field[string]    `by:"controller" absent:"no failure"`
}

// pooled removes the fields that pools do not have.
func pooled(l ReplicatedLayout) ReplicatedLayout {
	l.Selector, l.SelectorText = Field[*metav1.LabelSelector]{}, Field[string]{}
	l.DeletionOrder, l.MachineNaming = Field[string]{}, Field[string]{}
	return l
}

var machinePoolV1Beta2 = MachinePoolLayout{
	ReplicatedLayout:    pooled(replicatedV1Beta2()),
	ProviderIDs:         At[[]string]("spec", "providerIDList"),
	Phase:               At[string]("status", "phase"),
	Nodes:               At[[]NodeRef]("status", "nodeRefs"),
	BootstrapReady:      At[bool]("status", "initialization", "bootstrapDataSecretCreated"),
	InfrastructureReady: At[bool]("status", "initialization", "infrastructureProvisioned"),
	UnavailableReplicas: At[int32]("status", "deprecated", "v1beta1", "unavailableReplicas"),
	FailureReason:       At[string]("status", "deprecated", "v1beta1", "failureReason"),
	FailureMessage:      At[string]("status", "deprecated", "v1beta1", "failureMessage"),
}

var machinePoolV1Beta1 = func() MachinePoolLayout {
	l := machinePoolV1Beta2
	l.ReplicatedLayout = pooled(replicatedV1Beta1())
	l.BootstrapReady, l.InfrastructureReady = At[bool]("status", "bootstrapReady"), At[bool]("status", "infrastructureReady")
	l.UnavailableReplicas = At[int32]("status", "unavailableReplicas")
	l.FailureReason, l.FailureMessage = At[string]("status", "failureReason"), At[string]("status", "failureMessage")
	return l
}()

func (l *MachinePoolLayout) read(obj map[string]any, into *MachinePoolState) error {
	x := &exchange{obj: obj}
	l.walk(x, into, &MachinePoolUpdate{})
	return x.err
}

func (l *MachinePoolLayout) write(obj map[string]any, u MachinePoolUpdate) error {
	x := &exchange{obj: obj, writes: true}
	l.walk(x, &MachinePoolState{}, &u)
	return x.err
}

func (l *MachinePoolLayout) walk(x *exchange, s *MachinePoolState, u *MachinePoolUpdate) {
	x.metadata(&s.Metadata, &u.MetadataUpdate)
	l.ReplicatedLayout.walk(x, &s.ReplicatedState, &u.ReplicatedUpdate)
	plain(x, l.ProviderIDs, &s.ProviderIDs, u.ProviderIDs)
	put(x, l.Template.DataSecretName, u.DataSecretName)
	plain(x, l.Phase, &s.Phase, u.Phase)
	plain(x, l.Nodes, &s.Nodes, u.Nodes)
	distinct(x, l.BootstrapReady, &s.BootstrapReady, u.BootstrapReady)
	distinct(x, l.InfrastructureReady, &s.InfrastructureReady, u.InfrastructureReady)
	distinct(x, l.UnavailableReplicas, &s.UnavailableReplicas, u.UnavailableReplicas)
	plain(x, l.FailureReason, &s.FailureReason, u.FailureReason)
	plain(x, l.FailureMessage, &s.FailureMessage, u.FailureMessage)
}

// readNodeRef does not require a UID: the writer of the reference may not have had it.
func readNodeRef(e entry) (NodeRef, error) {
	node := NodeRef{Name: e.needed("name"), UID: types.UID(e.text("uid"))}
	return node, e.err
}

func nodeRefContent(n NodeRef) any {
	content := map[string]any{"apiVersion": "v1", "kind": "Node", "name": n.Name}
	if n.UID != "" {
		content["uid"] = string(n.UID)
	}
	return content
}
