package propagate

import corev1 "k8s.io/api/core/v1"

// Propagation is how a taint of an owner is propagated to its Node.
type Propagation string

// Values of Propagation. With any other value, the Node's taint is not changed.
const (
	// Always sets the taint with the owner's value, and removes it when the owner no longer has it.
	Always Propagation = "Always"
	// OnInitialization sets the taint once on a new Node, and then ignores it. Without a ledger, a Node is new while it has a startup taint.
	// If the Node also registers with the taint, see userdata.Node, and its agent removes it before the first propagation, the taint is set
	// once more.
	OnInitialization Propagation = "OnInitialization"
	// WhenMissing adds the taint, in every pass, to a Node without a taint of its key and effect. It neither changes nor removes the taint.
	WhenMissing Propagation = "WhenMissing"
)

// Taint is a taint that an owner wants on its Node. Two taints are the same if key and effect are equal. TimeAdded is
// not used.
type Taint struct {
	corev1.Taint
	// Propagation defaults to Always.
	Propagation Propagation
}

// Owner is the owner of a Node: a Machine, a pool, or any other object. With the zero Owner, the policy's marks are not changed. Otherwise
// all marks are set from it; the mark of an empty field is removed.
type Owner struct {
	Namespace, Name string
	// Cluster is the name of the owner's cluster.
	Cluster string
	// ControllerKind and ControllerName name the owner's own controller, for example a MachineSet. Both are empty for a
	// Machine without a controller.
	ControllerKind, ControllerName string
}

// Desired is what an owner wants on its Node. Maps and slices are neither changed nor retained.
type Desired struct {
	// Labels and Annotations are the owner's own; the policy selects from them.
	Labels, Annotations map[string]string
	// AddLabels and AddAnnotations are wanted regardless of the policy's selection, and override Labels and Annotations. Keys that the policy
	// itself writes, such as its marks, are ignored.
	AddLabels, AddAnnotations map[string]string
	// Taints are wanted on the Node. If two have the same key and effect, the first one is used.
	Taints []Taint
	// WithoutTaints, by key and effect, are taints that the Node must not have, whichever component added them. They
	// override Taints. Use them for taints that represent a state, such as the mark of an outdated revision.
	WithoutTaints []corev1.Taint
	// Owner is written to the marks.
	Owner Owner
}
