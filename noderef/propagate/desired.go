package propagate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Propagation says when a taint of an owner is given to its Node.
type Propagation string

// Ways to propagate a taint. Any other value leaves the Node's taint as it is.
const (
	// Always keeps the taint on the Node, with the owner's value, and removes it when the owner has it no more.
	Always Propagation = "Always"
	// OnInitialization gives the taint to a new Node once, and leaves it alone afterwards. Without a ledger a Node is new
	// while it has a startup taint.
	OnInitialization Propagation = "OnInitialization"
	// WhenMissing gives the taint to a Node that has none with its key and effect, in every pass, and neither changes nor
	// removes it.
	WhenMissing Propagation = "WhenMissing"
)

// Taint is a taint that an owner wants on its Node. Taints are the same when key and effect are. TimeAdded is not used.
type Taint struct {
	corev1.Taint
	// Propagation is the policy's when it is empty.
	Propagation Propagation
}

// Owner is whom a Node belongs to: a Machine, a pool, or anything else. The zero Owner leaves the policy's marks as they are.
// Otherwise they are all made to agree with it: an empty field means that its mark is removed.
type Owner struct {
	Namespace, Name string
	UID             types.UID
	// Cluster is the name of the cluster it is part of.
	Cluster string
	// ControllerKind and ControllerName name the owner's own controller, for example a MachineSet. Both are empty for a
	// Machine that stands alone.
	ControllerKind, ControllerName string
}

// Desired is what an owner says. Maps and slices are read, never changed or kept.
type Desired struct {
	// Labels and Annotations are the owner's own; the policy selects among them.
	Labels, Annotations map[string]string
	// AddLabels and AddAnnotations are wanted whatever the policy selects, and win over the others. Keys that the policy
	// itself decides about (its marks and its ledger) are passed over.
	AddLabels, AddAnnotations map[string]string
	// Taints are wanted on the Node. Of two with the same key and effect the first counts.
	Taints []Taint
	// WithoutTaints, by key and effect, are taints that the Node must not have, whatever component added them. They win over Taints. For
	// taints that stand for a state, such as the mark of an outdated revision.
	WithoutTaints []corev1.Taint
	// Owner becomes the marks.
	Owner Owner
}

// says returns the value of a mark, and false when the Node should not have it. have is what the Node has: when that is right
// already, it is returned without building the text again.
func (o *Owner) says(field OwnerField, have string) (string, bool) {
	text := ""
	switch field {
	case OwnerName:
		text = o.Name
	case OwnerNamespace:
		text = o.Namespace
	case OwnerNamespacedName:
		if o.isNamespacedName(have) {
			return have, true
		}
		if o.Name != "" {
			text = o.Namespace + "/" + o.Name
		}
	case OwnerUID:
		text = string(o.UID)
	case OwnerCluster:
		text = o.Cluster
	case OwnerControllerKind:
		text = o.ControllerKind
	case OwnerControllerName:
		text = o.ControllerName
	}
	return text, text != ""
}

func (o *Owner) isNamespacedName(have string) bool {
	n := len(o.Namespace)
	return o.Name != "" && len(have) == n+1+len(o.Name) && have[:n] == o.Namespace && have[n] == '/' && have[n+1:] == o.Name
}
