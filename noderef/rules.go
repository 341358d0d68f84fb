package noderef

import corev1 "k8s.io/api/core/v1"

// Rules say what makes a Node a Machine's. The zero Rules accept an equal provider ID and nothing else. They must be the
// same for the index, the lookups and the [Claims] of one cluster; where they are not, Nodes are missed, never mixed up.
// Rules are safe for concurrent use.
type Rules struct {
	// Canonical brings provider IDs of known shapes into one form, on both sides. Default nil: IDs are opaque.
	Canonical Canonical

	// ByName and ByAddress enable fallbacks for Nodes that have no provider ID, for example because no cloud controller runs. Default off:
	// names and addresses are reused for other instances, and a person who controls a kubelet can give its Node any name. See
	// [Rules.Resolve] for the guards.
	ByName, ByAddress bool
}

// Key returns what a provider ID is compared and indexed by, and "" for an ID that names no instance.
func (r Rules) Key(providerID string) string {
	if !ValidProviderID(providerID) {
		return ""
	}
	if r.Canonical == nil {
		return providerID
	}
	return r.Canonical(providerID)
}

// Same says that two provider IDs name one instance. IDs that name none are never the same.
func (r Rules) Same(a, b string) bool {
	if a == b {
		return ValidProviderID(a)
	}
	return r.Canonical != nil && r.Key(a) != "" && r.Key(a) == r.Key(b)
}

func (r Rules) fallsBack() bool { return r.ByName || r.ByAddress }

// Lookup finds Nodes. [Index] and nodeindex.Index implement it.
//
// What it returns is a view: neither the Nodes nor the slice may be changed.
type Lookup interface {
	// ByProviderID returns the Nodes with this provider ID, sorted by name. IDs that are not valid have none.
	ByProviderID(id string) []*corev1.Node
	// ByName returns the Node of that name, or nil.
	ByName(name string) *corev1.Node
}

// AddressLookup is what [Rules.ByAddress] needs of a [Lookup] in addition; without it that fallback finds nothing.
type AddressLookup interface {
	// ByAddress returns the Nodes that have this InternalIP, sorted by name.
	ByAddress(address string) []*corev1.Node
}
