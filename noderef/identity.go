package noderef

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Ref is a recorded Node: its name and UID. The name alone is not enough, because a Node that is deleted and registers
// again has the same name. The zero Ref means that no Node was recorded.
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

// IsZero reports whether no Node was recorded.
func (r Ref) IsZero() bool { return r == Ref{} }

// Identity is what a Machine knows about its Node. Only ProviderID and Current are required; claims and fallbacks use
// the other fields. It is read, never changed or kept.
type Identity struct {
	// Machine is the name of the Machine. Claims with this name are its own.
	Machine types.NamespacedName
	// ProviderID is the provider ID that the infrastructure reported, unchanged. Empty means that there is none yet.
	ProviderID string
	// Current is the Node that was recorded for the Machine in an earlier pass, if any.
	Current Ref

	// NodeName is the name with which the Node is expected to register, for [Rules.ByName]. Empty disables that
	// fallback.
	NodeName string
	// Addresses are those of the instance, for [Rules.ByAddress].
	Addresses []corev1.NodeAddress
	// Created is when the creation of the instance was requested. A fallback matches no older Node, and none at all
	// while it is zero.
	Created time.Time
}

// ValidProviderID reports whether a provider ID names an instance. The empty ID does not, and neither does a scheme
// that is followed only by slashes and blanks: vSphere's cloud controller has set "vsphere://"
// (kubernetes/cloud-provider-vsphere#521), which many Nodes would share.
//
// A scheme is not required: Oracle's provider IDs are plain OCIDs.
func ValidProviderID(id string) bool {
	if i := strings.IndexByte(id, ':'); i >= 0 {
		id = id[i+1:]
	}
	return strings.Trim(id, "/ \t\r\n") != ""
}

// MayTouch is [Rules.MayTouch] of the zero Rules.
func MayTouch(node *corev1.Node, ref Ref, providerID string) bool {
	return Rules{}.MayTouch(node, ref, providerID)
}

// MayTouch reports whether a destructive call (cordon, evict, delete) may be made on a Node: it must be the recorded
// Node, by name and UID, and still have the Machine's provider ID. If a fallback is enabled, the recorded Node may also
// have no provider ID.
//
// It is false for a nil Node and for a Ref without UID. The API call still needs a UID precondition, because the Node
// may be replaced between this check and the call. It does not consider other Machines: call it with [Match.Node],
// which is nil when the Node is contested.
func (r Rules) MayTouch(node *corev1.Node, ref Ref, providerID string) bool {
	if node == nil || ref.UID == "" || RefTo(node) != ref {
		return false
	}
	if !ValidProviderID(node.Spec.ProviderID) {
		return r.fallsBack()
	}
	return r.Same(node.Spec.ProviderID, providerID)
}
