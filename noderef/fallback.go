package noderef

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Refusal is why a Node that matches by name or address was refused.
type Refusal uint8

// Reasons to refuse a Node.
const (
	// NotRefused is the zero value.
	NotRefused Refusal = iota
	// RefusedProviderID: the Node has a provider ID, and it is not the Machine's.
	RefusedProviderID
	// RefusedOlder: the Node is older than the Machine's instance, so its name or address belonged to another instance.
	RefusedOlder
	// RefusedDeleting: the Node is being deleted.
	RefusedDeleting
	// RefusedHostname: the address matches, but the host name is not one of the instance's.
	RefusedHostname
)

// String returns the reason as a clause about the Node.
func (r Refusal) String() string {
	names := [...]string{"it was not refused", "it has another provider ID", "it is older than the Machine's instance",
		"it is being deleted", "it has another host name"}
	if int(r) < len(names) {
		return names[r]
	}
	return "it was refused"
}

// fallback looks for a Node without a provider ID. The zero Match means that there is no candidate.
func (r Rules) fallback(id Identity, nodes Lookup) Match {
	if !r.fallsBack() {
		return Match{}
	}
	if id.Current.Name != "" && id.Current.UID != "" {
		return rediscovered(id, nodes)
	}
	if r.ByName && id.NodeName != "" {
		if node := nodes.ByName(id.NodeName); node != nil {
			return admitted(id, node, ByName)
		}
	}
	addresses, ok := nodes.(AddressLookup)
	if !r.ByAddress || !ok {
		return Match{}
	}
	switch found := sharingAddress(id, addresses); len(found) {
	case 0:
		return Match{}
	case 1:
		return admitted(id, found[0], ByAddress)
	default:
		return Match{Outcome: Ambiguous, Candidates: found}
	}
}

// rediscovered confirms a recorded Node that never had a provider ID. It never changes the reference to another Node.
func rediscovered(id Identity, nodes Lookup) Match {
	node := nodes.ByName(id.Current.Name)
	if !recorded(id, node) || ValidProviderID(node.Spec.ProviderID) {
		return Match{}
	}
	return Match{Outcome: Matched, By: ByRecord, Node: node}
}

func admitted(id Identity, node *corev1.Node, by Key) Match {
	if id.Current.UID != "" && !recorded(id, node) {
		return Match{}
	}
	if why := refusal(id, node, by); why != NotRefused {
		return Match{Outcome: NotFound, Other: node, Refused: why}
	}
	return Match{Outcome: Matched, By: by, Node: node, Record: true}
}

func refusal(id Identity, node *corev1.Node, by Key) Refusal {
	switch {
	case ValidProviderID(node.Spec.ProviderID):
		return RefusedProviderID
	case node.DeletionTimestamp != nil:
		return RefusedDeleting
	case id.Created.IsZero() || node.CreationTimestamp.Time.Before(id.Created):
		return RefusedOlder
	case by == ByAddress && !hostnamesAgree(id.Addresses, node):
		return RefusedHostname
	}
	return NotRefused
}

// sharingAddress returns the Nodes that have an internal address of the instance, sorted by name. External addresses
// may be shared or move to other instances.
func sharingAddress(id Identity, nodes AddressLookup) []*corev1.Node {
	var found []*corev1.Node
	for _, a := range id.Addresses {
		if a.Type != corev1.NodeInternalIP || a.Address == "" {
			continue
		}
		for _, node := range nodes.ByAddress(a.Address) {
			if !slices.Contains(found, node) {
				found = append(found, node)
			}
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// hostnamesAgree reports whether the Node has one of the instance's host names. It is true if the instance has none.
func hostnamesAgree(instance []corev1.NodeAddress, node *corev1.Node) bool {
	named := false
	for _, a := range instance {
		if a.Type != corev1.NodeHostName {
			continue
		}
		named = true
		if a.Address == node.Name || slices.Contains(node.Status.Addresses, a) {
			return true
		}
	}
	return !named
}

// looksLike reports whether a fallback could match the Node, without the guards.
func (r Rules) looksLike(id Identity, node *corev1.Node) bool {
	if r.ByName && id.NodeName != "" && id.NodeName == node.Name {
		return true
	}
	return r.ByAddress && slices.ContainsFunc(id.Addresses, func(a corev1.NodeAddress) bool {
		return a.Type == corev1.NodeInternalIP && a.Address != "" && slices.Contains(node.Status.Addresses, a)
	})
}
