package noderef

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Ref is a Node as it was recorded: by name and UID. The name alone is not enough, because a Node that is deleted and
// registers again has the same name. The zero Ref means that none was recorded.
type Ref struct {
	Name string
	// UID is empty in a reference that another system wrote by name only, as Cluster API does.
	UID types.UID
}

// RefTo returns the reference to a Node, and the zero Ref for nil.
func RefTo(node *corev1.Node) Ref {
	if node == nil {
		return Ref{}
	}
	return Ref{Name: node.Name, UID: node.UID}
}

// IsZero says that no Node was recorded.
func (r Ref) IsZero() bool { return r == Ref{} }

// Identity is what a Machine knows about its Node.
type Identity struct {
	// ProviderID is the provider ID that the infrastructure reported, unchanged. Empty means that there is none yet.
	ProviderID string
	// Current is the Node that was recorded for the Machine in an earlier pass, if any.
	Current Ref
}

// ValidProviderID says whether a provider ID names an instance. The empty ID does not, nor does a scheme followed by
// nothing but slashes and blanks: vSphere's cloud controller, for one, has set "vsphere://"
// (kubernetes/cloud-provider-vsphere#521), which many Nodes would share.
//
// It does not ask for a scheme: Oracle's provider IDs are plain OCIDs.
func ValidProviderID(id string) bool {
	if i := strings.IndexByte(id, ':'); i >= 0 {
		id = id[i+1:]
	}
	return strings.Trim(id, "/ \t\r\n") != ""
}

// MayTouch says whether a destructive call (cordon, evict, delete) may be made on a Node: it must be the very Node that was
// recorded, by name and UID, and still carry the Machine's provider ID.
//
// It is false for a nil Node, for a Ref without UID and for a provider ID that is not valid. The API call that follows needs
// a UID precondition all the same: the Node may be replaced between this check and the call.
func MayTouch(node *corev1.Node, ref Ref, providerID string) bool {
	return node != nil &&
		ref.UID != "" && RefTo(node) == ref &&
		ValidProviderID(providerID) && node.Spec.ProviderID == providerID
}
