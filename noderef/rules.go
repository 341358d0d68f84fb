package noderef

import corev1 "k8s.io/api/core/v1"

// Rules define which Node belongs to a Machine. The zero Rules match only equal provider IDs. The index, the lookups and the [Claims] of
// one cluster must use the same rules; if they differ, Nodes are missed, but never confused. Rules are safe for concurrent use.
type Rules struct {
	// Canonical normalizes a valid provider ID to the key by which it is compared and indexed. It must return an ID of an unknown form
	// unchanged, must return the same key for two IDs only if they name the same instance, and must have no side effects. Default nil: IDs are
	// opaque. Then two forms of one ID differ, and a Machine waits for its Node.
	Canonical func(providerID string) string
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

// Same reports whether two provider IDs name the same instance. It is false for IDs that name no instance.
func (r Rules) Same(a, b string) bool {
	if a == b {
		return ValidProviderID(a)
	}
	return r.Canonical != nil && r.Key(a) != "" && r.Key(a) == r.Key(b)
}

// Lookup finds Nodes. [Index] and cluster.NodeIndex implement it.
//
// The result is a view: neither the Nodes nor the slice may be changed.
type Lookup interface {
	// ByProviderID returns the Nodes with this provider ID, sorted by name; none for an invalid ID.
	ByProviderID(id string) []*corev1.Node
	// ByName returns the Node of that name, or nil.
	ByName(name string) *corev1.Node
}
