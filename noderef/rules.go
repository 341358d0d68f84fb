package noderef

import corev1 "k8s.io/api/core/v1"

// Rules define which Node is a Machine's. The zero Rules accept only an equal provider ID. The index, the lookups and
// the [Claims] of one cluster must use the same rules; if they differ, Nodes are missed, but never mixed up. Rules are
// safe for concurrent use.
type Rules struct {
	// Canonical normalizes provider IDs of known shapes, on both sides. Default nil: IDs are opaque.
	Canonical Canonical

	// ByName and ByAddress enable fallbacks for Nodes that have no provider ID, for example because no cloud controller
	// runs. Default off: names and addresses are reused for other instances, and a person who controls a kubelet can
	// give its Node any name. See [Rules.Resolve] for the guards.
	ByName, ByAddress bool
}

// Key returns the key by which a provider ID is compared and indexed, and "" for an ID that names no instance.
func (r Rules) Key(providerID string) string {
	if !ValidProviderID(providerID) {
		return ""
	}
	if r.Canonical == nil {
		return providerID
	}
	return r.Canonical(providerID)
}

// Same reports whether two provider IDs name the same instance. IDs that name none are never the same.
func (r Rules) Same(a, b string) bool {
	if a == b {
		return ValidProviderID(a)
	}
	return r.Canonical != nil && r.Key(a) != "" && r.Key(a) == r.Key(b)
}

func (r Rules) fallsBack() bool { return r.ByName || r.ByAddress }

// Lookup finds Nodes. [Index] and cluster.NodeIndex implement it.
//
// The result is a view: neither the Nodes nor the slice may be changed.
type Lookup interface {
	// ByProviderID returns the Nodes with this provider ID, sorted by name; none for an invalid ID.
	ByProviderID(id string) []*corev1.Node
	// ByName returns the Node of that name, or nil.
	ByName(name string) *corev1.Node
}

// AddressLookup is an additional method that [Rules.ByAddress] needs of a [Lookup]; without it that fallback finds
// nothing.
type AddressLookup interface {
	// ByAddress returns the Nodes that have this InternalIP, sorted by name.
	ByAddress(address string) []*corev1.Node
}
