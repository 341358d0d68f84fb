package contract

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is an API object: the same methods as controller-runtime's client.Object, without importing it.
type Object interface {
	metav1.Object
	runtime.Object
}

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
	// PreDrainHook and PreTerminateHook are prefixes of annotations that hold deletion up before drain, and before the
	// infrastructure is deleted. Rule: Cluster API proposal "machine deletion phase hooks".
	PreDrainHook     = "pre-drain.delete.hook.machine.cluster.x-k8s.io"
	PreTerminateHook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io"
)

// Annotations of this module, for state that Cluster API's schema has no field for.
const (
	// NodeUIDAnnotation holds the UID of the matched Node, which tells it from a later Node of the same name.
	NodeUIDAnnotation = "machinist.dev/node-uid"
	// DrainedAnnotation holds the UID of the Node whose drain was finished.
	DrainedAnnotation = "machinist.dev/drained-node-uid"
)

// Ref points at an object in the namespace of the Machine that holds it. The API version is not part of it: it follows
// from the contract label of the kind's CRD. The zero Ref is "none".
type Ref struct {
	Group, Kind, Name string
}

// IsZero reports whether the reference is not set at all.
func (r Ref) IsZero() bool { return r == Ref{} }

// GroupKind returns the kind that the reference points at.
func (r Ref) GroupKind() schema.GroupKind { return schema.GroupKind{Group: r.Group, Kind: r.Kind} }

// NodeRef is a Node that was matched: its name, and the UID that tells it from a later Node of the same name.
type NodeRef struct {
	Name string
	UID  types.UID
}

// MachineState is everything that a decision about a Machine may need, whatever shape the object has. Strings, maps and
// slices are read-only views.
type MachineState struct {
	Key             types.NamespacedName
	UID             types.UID
	ResourceVersion string
	Generation      int64
	Created         time.Time
	// Deleting is when deletion was asked for, zero while it was not.
	Deleting            time.Time
	Labels, Annotations map[string]string
	Finalizers          []string
	OwnerReferences     []metav1.OwnerReference

	ClusterName    string
	Bootstrap      Ref
	Infrastructure Ref
	// DataSecretName is absent until the bootstrap data exists; the empty name is a value of its own.
	DataSecretName Opt[string]
	ProviderID     string
	// NodeDrainTimeout and NodeDeletionTimeout are absent for "no value given"; zero means no limit.
	NodeDrainTimeout, NodeDeletionTimeout Opt[time.Duration]

	Phase                               string
	Node                                NodeRef
	BootstrapReady, InfrastructureReady Opt[bool]
	Addresses                           []Address
	FailureDomain                       string
	Conditions                          []metav1.Condition
	ObservedGeneration                  int64
	LastUpdated                         time.Time
	// DrainStarted is when draining began, zero before.
	DrainStarted time.Time
	// DrainedNode is the UID of the Node whose drain was finished.
	DrainedNode types.UID
}

// Paused reports whether the Machine asks to be left alone. Rule: contract page "Paused".
func (s *MachineState) Paused() bool {
	_, paused := s.Annotations[PausedAnnotation]
	return paused
}

// MachineUpdate is what a pass wants to change. The zero update changes nothing. Where MachineState has no Opt, zero and
// absent are the same to every reader, and setting the zero value removes the field: the schemas of Machines refuse empty
// texts.
type MachineUpdate struct {
	Finalizers          Change[[]string]
	OwnerReferences     Change[[]metav1.OwnerReference]
	Labels, Annotations map[string]Change[string]

	ProviderID     Change[string]
	DataSecretName Change[string]

	Phase                               Change[string]
	Node                                Change[NodeRef]
	BootstrapReady, InfrastructureReady Change[bool]
	Addresses                           Change[[]Address]
	FailureDomain                       Change[string]
	ObservedGeneration                  Change[int64]
	LastUpdated                         Change[time.Time]
	DrainStarted                        Change[time.Time]
	DrainedNode                         Change[types.UID]

	// Conditions are upserted by type; the others of the list stay. An empty reason becomes ReasonNotReported.
	Conditions []metav1.Condition
	// RemoveConditions are types to remove.
	RemoveConditions []string
}

// MachineAdapter translates between a Machine of some shape and neutral values. Safe for concurrent use.
type MachineAdapter interface {
	// Read fills every field of the state and may reuse its slices. It neither changes nor keeps the object, but the state
	// may share the object's strings, maps and slices. After an error the state is to be thrown away.
	Read(Object, *MachineState) error
	// Write changes what the update sets or clears and nothing else; it does not change the update. What was written is
	// read back equal, times to the second. It must not fail for a value that the shape has no place for: such state goes
	// to annotations. After an error the object is to be thrown away.
	Write(Object, MachineUpdate) error
}

// Kind is a kind of Machine and how to read it. Every field but StatusSubresource is needed.
type Kind struct {
	// GVK is used for owner references and events, because cached objects of Go types have none.
	GVK schema.GroupVersionKind
	// New and NewList return empty objects, with the GVK set when they are unstructured.
	New     func() Object
	NewList func() runtime.Object
	// Adapter translates the objects that New returns.
	Adapter MachineAdapter
	// StatusSubresource says that status is written through its own endpoint.
	StatusSubresource bool
}
