package noderef

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// RefTo returns the reference to a Node, the zero reference for nil.
func RefTo(node *corev1.Node) contract.NodeRef {
	if node == nil {
		return contract.NodeRef{}
	}
	return contract.NodeRef{Name: node.Name, UID: node.UID}
}

// Identity is the part of a Machine that identifies its Node. It is neither changed nor retained.
type Identity struct {
	// Machine is the name of the Machine. Claims with this name are its own.
	Machine types.NamespacedName
	// ProviderID is the provider ID that the infrastructure reported, unchanged. Empty means that there is none yet.
	ProviderID string
	// Current is the Node that was recorded for the Machine in an earlier pass, if any. Its UID is empty if another system, such as Cluster
	// API, recorded only the name.
	Current contract.NodeRef
	// Deleting means that the Machine is being deleted, and Gone that its instance no longer exists. Several Nodes with its provider ID then
	// belong to one instance, as after a change of its host name. The recorded Node is used first, and when it is gone the others, one after
	// the other.
	Deleting, Gone bool
}

// ValidProviderID reports whether a provider ID names an instance. The empty ID does not, and neither does a scheme followed only by
// slashes and white space: vSphere's cloud controller has set "vsphere://" (kubernetes/cloud-provider-vsphere#521), which many Nodes would
// share.
//
// A scheme is not required: Oracle's provider IDs are plain OCIDs.
func ValidProviderID(id string) bool {
	if i := strings.IndexByte(id, ':'); i >= 0 {
		id = id[i+1:]
	}
	return strings.Trim(id, "/ \t\r\n") != ""
}

// MayTouch reports whether a destructive call (cordon, evict, delete) may be made on a Node: it must be the recorded
// Node, by name and UID, and still have the Machine's provider ID.
//
// It is false for a nil Node and for a reference without UID. The API call still needs a UID precondition, because the Node
// may be replaced between this check and the call. It does not consider other Machines: call it with [Match.Node],
// which is nil when the Node is contested.
func (r Rules) MayTouch(node *corev1.Node, ref contract.NodeRef, providerID string) bool {
	return node != nil && ref.UID != "" && RefTo(node) == ref && r.Same(node.Spec.ProviderID, providerID)
}
