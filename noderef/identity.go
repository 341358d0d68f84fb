package noderef

import (
	"strings"
	"time"

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

// Identity is what a Machine knows about its Node. Only ProviderID and Current are needed; the others serve claims and
// fallbacks. It is read, never changed or kept.
type Identity struct {
	// Machine names the Machine. Claims of this name are its own.
	Machine types.NamespacedName
	// ProviderID is the provider ID that the infrastructure reported, unchanged. Empty means that there is none yet.
	ProviderID string
	// Current is the Node that was recorded for the Machine in an earlier pass, if any.
	Current Ref

	// NodeName is the name that the Node is expected to register with, for [Rules.ByName]. Empty: that fallback is off.
	NodeName string
	// Addresses are those of the instance, for [Rules.ByAddress].
	Addresses []corev1.NodeAddress
	// Created is when the instance was asked for. A fallback matches no older Node, and none at all while it is zero.
	Created time.Time
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

// MayTouch is [Rules.MayTouch] of the zero Rules.
func MayTouch(node *corev1.Node, ref Ref, providerID string) bool {
	return Rules{}.MayTouch(node, ref, providerID)
}

// MayTouch says whether a destructive call (cordon, evict, delete) may be made on a Node: it must be the very Node that was
// recorded, by name and UID, and still carry the Machine's provider ID. Where a fallback is on, the recorded Node may also
// have no provider ID.
//
// It is false for a nil Node and for a Ref without UID. The API call that follows needs a UID precondition all the same: the
// Node may be replaced between this check and the call. It knows nothing of other Machines: ask it about [Match.Node], which
// is nil when the Node is contested.
func (r Rules) MayTouch(node *corev1.Node, ref Ref, providerID string) bool {
	if node == nil || ref.UID == "" || RefTo(node) != ref {
		return false
	}
	if !ValidProviderID(node.Spec.ProviderID) {
		return r.fallsBack()
	}
	return r.Same(node.Spec.ProviderID, providerID)
}
