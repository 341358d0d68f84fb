package noderef

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Outcome is the result of a lookup for a Machine.
type Outcome uint8

const (
	// Unknown is the zero value. Resolve never returns it; treat it like [Ambiguous].
	Unknown Outcome = iota
	// Matched means that one Node is the Machine's: the recorded one, or the first one.
	Matched
	// Readopted means that one Node has the provider ID, but another UID or name than the recorded Node. It is the
	// Machine's Node; see [Match.Record].
	Readopted
	// NotFound means that no Node matches, and none has the recorded name.
	NotFound
	// NoProviderID means that the Machine has no provider ID yet, or one that names no instance, and that no fallback
	// found a Node.
	NoProviderID
	// Ambiguous means that several Nodes match; see [Match.Candidates].
	Ambiguous
	// Stale means that no Node matches, and that a Node with the recorded name exists but has another provider ID (or
	// none) or another UID. That Node is [Match.Other]; it does not belong to the Machine and must not be changed.
	Stale
	// Claimed means that a Node matches, but another Machine has recorded it, or claims it too while neither has
	// recorded it; see [Match.Rivals]. That Node is [Match.Other] and must not be changed until a person has resolved
	// the conflict.
	Claimed
)

// String returns the name of the constant.
func (o Outcome) String() string {
	names := [...]string{"Unknown", "Matched", "Readopted", "NotFound", "NoProviderID", "Ambiguous", "Stale", "Claimed"}
	if int(o) < len(names) {
		return names[o]
	}
	return "Outcome(" + strconv.Itoa(int(o)) + ")"
}

// Key is the property by which a Node was matched.
type Key uint8

const (
	// ByNothing is the zero value: there was no match.
	ByNothing Key = iota
	// ByProviderID means that the Node's spec.providerID is the Machine's.
	ByProviderID
	// ByName means that the Node has the expected name ([Rules.ByName]).
	ByName
	// ByAddress means that the Node has an internal address of the instance ([Rules.ByAddress]).
	ByAddress
	// ByRecord means that the Node was recorded by name or address earlier, and still has no provider ID.
	ByRecord
)

// String returns the property in words.
func (k Key) String() string {
	names := [...]string{"nothing", "provider ID", "name", "address", "record"}
	if int(k) < len(names) {
		return names[k]
	}
	return "Key(" + strconv.Itoa(int(k)) + ")"
}

// Match is the result of [Rules.Resolve]. Its Nodes are views: they must not be changed.
type Match struct {
	Outcome Outcome
	// By is the property that matched; ByNothing when Node is nil.
	By Key
	// Node is the Machine's Node. It is set for Matched and Readopted, and nil for every other outcome.
	Node *corev1.Node
	// Record means that Node differs from the recorded reference, or that there was no reference or one without a UID.
	// The caller stores RefTo(Node) first, and acts destructively only in a later pass.
	Record bool
	// UIDChanged means that the recorded reference had another UID: the Node object was replaced.
	UIDChanged bool
	// NameChanged means that the recorded reference had another name: the instance registered again under a new name.
	NameChanged bool
	// Candidates are the Nodes that match, sorted by name. Only set when the outcome is Ambiguous.
	Candidates []*corev1.Node
	// Other is a Node that is not the Machine's and that is worth reporting: for Stale the Node with the recorded name,
	// for Claimed the contested Node, for Readopted the previously recorded Node if it still exists (the provider ID of
	// the Machine changed), and the Node that a fallback refused.
	Other *corev1.Node
	// Refused is why a fallback refused Other.
	Refused Refusal
	// Rivals are the other Machines that claim the Node, sorted. They are set for Claimed, and for a Node that matched
	// because only this Machine has recorded it.
	Rivals []Claim
}

// Found reports whether the Machine has a Node: the outcome is Matched or Readopted.
func (m Match) Found() bool { return m.Node != nil }

// CandidateNames returns the sorted names of at most limit candidates, and how many were omitted. With limit < 1 it
// returns none. It allocates.
func (m Match) CandidateNames(limit int) (names []string, more int) {
	n := min(max(limit, 0), len(m.Candidates))
	names = make([]string, 0, n)
	for _, node := range m.Candidates[:n] {
		names = append(names, node.Name)
	}
	return names, len(m.Candidates) - n
}

// Resolve is [Rules.Resolve] of the zero Rules, without claims of other Machines.
func Resolve(id Identity, nodes Lookup) Match { return Rules{}.Resolve(id, nodes, nil) }

// Resolve finds a Machine's Node. If a Node has the provider ID, names and addresses are not considered. claims may be
// nil: then other Machines are not considered. Resolve allocates nothing unless a fallback is enabled, a Canonical
// rewrites the ID, or another Machine claims the Node; it calls claims only for a Node that was found.
//
// A fallback matches a Node only if it has no provider ID, is not older than the instance, is not being deleted, is the
// only match, and is claimed by no other Machine. Once the Node is recorded, only its UID confirms it. If a provider ID
// appears later, the provider ID decides.
//
// Call Resolve only when the lookup is complete: with an index that has not seen all Nodes it returns NotFound for a
// Node that exists.
func (r Rules) Resolve(id Identity, nodes Lookup, claims Claims) Match {
	if !ValidProviderID(id.ProviderID) {
		return r.contested(id, r.without(id, nodes, NoProviderID), claims)
	}
	found := nodes.ByProviderID(id.ProviderID)
	switch len(found) {
	case 0:
		return r.contested(id, r.without(id, nodes, NotFound), claims)
	case 1:
		return r.contested(id, matched(id, found[0], nodes), claims)
	default:
		return Match{Outcome: Ambiguous, Candidates: found}
	}
}

// without decides the outcome when no Node has the Machine's provider ID.
func (r Rules) without(id Identity, nodes Lookup, otherwise Outcome) Match {
	m := r.fallback(id, nodes)
	if m.Outcome == Matched || m.Outcome == Ambiguous {
		return m
	}
	// A Machine that never had a provider ID matches only by name or address, so a recorded name matters only with a
	// fallback.
	if id.Current.Name != "" && (otherwise == NotFound || r.fallsBack()) {
		if other := nodes.ByName(id.Current.Name); other != nil {
			return Match{Outcome: Stale, Other: other}
		}
	}
	m.Outcome = otherwise
	return m
}

func matched(id Identity, node *corev1.Node, nodes Lookup) Match {
	cur := id.Current
	m := Match{
		Outcome:     Matched,
		By:          ByProviderID,
		Node:        node,
		Record:      RefTo(node) != cur || cur.UID == "",
		UIDChanged:  cur.UID != "" && node.UID != cur.UID,
		NameChanged: cur.Name != "" && node.Name != cur.Name,
	}
	if !m.UIDChanged && !m.NameChanged {
		return m
	}
	m.Outcome = Readopted
	if m.NameChanged {
		// A Node's provider ID cannot change, so if the recorded Node still exists, the Machine's provider ID changed.
		if other := nodes.ByName(cur.Name); other != nil && (cur.UID == "" || other.UID == cur.UID) {
			m.Other = other
		}
	}
	return m
}
