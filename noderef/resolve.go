package noderef

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Lookup finds Nodes. [Index] and nodeindex.Index implement it.
//
// What it returns is a view: neither the Nodes nor the slice may be changed.
type Lookup interface {
	// ByProviderID returns the Nodes with exactly this provider ID, sorted by name. IDs that are not valid have none.
	ByProviderID(id string) []*corev1.Node
	// ByName returns the Node of that name, or nil.
	ByName(name string) *corev1.Node
}

// Outcome is what a lookup means for a Machine.
type Outcome uint8

const (
	// Unknown is the zero value. [Resolve] never returns it; treat it like [Ambiguous].
	Unknown Outcome = iota
	// Matched means that one Node has the provider ID, and that it is the recorded one or the first.
	Matched
	// Readopted means that one Node has the provider ID, but another UID or name than the recorded Node. It is the
	// Machine's; see [Match.Record].
	Readopted
	// NotFound means that no Node has the provider ID, and none has the recorded name.
	NotFound
	// NoProviderID means that the Machine has no provider ID yet, or one that names no instance.
	NoProviderID
	// Ambiguous means that several Nodes have the provider ID; see [Match.Candidates].
	Ambiguous
	// Stale means that no Node has the provider ID, while a Node with the recorded name exists and has another one (or
	// none): the name was taken over. That Node is [Match.Other] and must be left alone.
	Stale
)

// String returns the name of the constant.
func (o Outcome) String() string {
	names := [...]string{"Unknown", "Matched", "Readopted", "NotFound", "NoProviderID", "Ambiguous", "Stale"}
	if int(o) < len(names) {
		return names[o]
	}
	return "Outcome(" + strconv.Itoa(int(o)) + ")"
}

// Key is the property that a Node was matched by.
type Key uint8

const (
	// ByNothing is the zero value: there was no match.
	ByNothing Key = iota
	// ByProviderID means that the Node's spec.providerID equals the Machine's.
	ByProviderID
)

// String returns the field that the key stands for.
func (k Key) String() string {
	switch k {
	case ByNothing:
		return "nothing"
	case ByProviderID:
		return "provider ID"
	default:
		return "Key(" + strconv.Itoa(int(k)) + ")"
	}
}

// Match is the answer of [Resolve]. Its Nodes are views: they must not be changed.
type Match struct {
	Outcome Outcome
	// By is the property that matched; ByNothing when Node is nil.
	By Key
	// Node is the Machine's Node. It is set for Matched and Readopted, and nil for every other outcome.
	Node *corev1.Node
	// Record says that Node differs from the recorded reference, or that there was none, or none with a UID. The caller
	// stores RefTo(Node) first, and acts destructively only in a later pass.
	Record bool
	// UIDChanged says that the recorded reference had another UID: the Node object was replaced.
	UIDChanged bool
	// NameChanged says that the recorded reference had another name: the instance registered again under a new one.
	NameChanged bool
	// Candidates are the Nodes that share the provider ID, sorted by name. Only set when the outcome is Ambiguous.
	Candidates []*corev1.Node
	// Other is a Node that is not the Machine's and that a person should hear about: for Stale the Node that has the
	// recorded name, for Readopted the formerly recorded Node when it still exists (the provider ID of the Machine changed).
	Other *corev1.Node
}

// Found says that the Machine has a Node: the outcome is Matched or Readopted.
func (m Match) Found() bool { return m.Node != nil }

// CandidateNames returns the sorted names of at most limit candidates, and how many were left out. With limit < 1 it returns
// none. It allocates.
func (m Match) CandidateNames(limit int) (names []string, more int) {
	n := min(max(limit, 0), len(m.Candidates))
	names = make([]string, 0, n)
	for _, node := range m.Candidates[:n] {
		names = append(names, node.Name)
	}
	return names, len(m.Candidates) - n
}

// Resolve finds a Machine's Node. It makes at most two lookups, allocates nothing, and keeps no argument.
//
// The caller asks only when the lookup is complete: an index that has not seen all Nodes says NotFound for a Node that exists.
func Resolve(id Identity, nodes Lookup) Match {
	if !ValidProviderID(id.ProviderID) {
		return Match{Outcome: NoProviderID}
	}
	found := nodes.ByProviderID(id.ProviderID)
	switch len(found) {
	case 0:
		return missing(id, nodes)
	case 1:
		return matched(id, found[0], nodes)
	default:
		return Match{Outcome: Ambiguous, Candidates: found}
	}
}

func missing(id Identity, nodes Lookup) Match {
	if id.Current.Name != "" {
		if other := nodes.ByName(id.Current.Name); other != nil {
			return Match{Outcome: Stale, Other: other}
		}
	}
	return Match{Outcome: NotFound}
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
		// A Node's provider ID cannot change, so a recorded Node that still exists means that the Machine's did.
		if other := nodes.ByName(cur.Name); other != nil && (cur.UID == "" || other.UID == cur.UID) {
			m.Other = other
		}
	}
	return m
}
