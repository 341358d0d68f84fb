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
	// Matched means that the Machine has a Node: the recorded one or, without a record, the first one.
	Matched
	// Readopted means that one Node has the provider ID, but another UID or name than the recorded Node. It is the
	// Machine's Node; see [Match.Record].
	Readopted
	// NotFound means that no Node matches, and none has the recorded name.
	NotFound
	// NoProviderID means that the Machine has no provider ID yet, or one that names no instance.
	NoProviderID
	// Ambiguous means that several Nodes match, see [Match.Candidates], and that the choice between them matters.
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

// Match is the result of [Rules.Resolve]. Its Nodes are views: they must not be changed.
type Match struct {
	Outcome Outcome
	// Node is the Machine's Node. It is set for Matched and Readopted, and nil for every other outcome.
	Node *corev1.Node
	// Record means that Node differs from the recorded reference, or that the reference is missing or has no UID. The caller stores
	// RefTo(Node) first, and acts destructively only in a later pass.
	Record bool
	// Candidates are the Nodes that match, sorted by name. Only set when the outcome is Ambiguous.
	Candidates []*corev1.Node
	// Other is a Node to report that does not belong to the Machine: for Stale the Node with the recorded name, for Claimed the contested
	// Node, and for Readopted the previously recorded Node if it still exists (the provider ID of the Machine changed).
	Other *corev1.Node
	// Rivals are the other Machines that claim the Node, sorted. They are set for Claimed, and for a Node that matched
	// because only this Machine has recorded it.
	Rivals []Claim
}

// Found reports whether the Machine has a Node: the outcome is Matched or Readopted.
func (m Match) Found() bool { return m.Node != nil }

// Resolve finds a Machine's Node: the only one with its provider ID, which no other Machine may claim. For several Nodes see [Identity].
// claims may be nil: then other Machines are not considered. Resolve allocates nothing unless a Canonical rewrites the ID or another
// Machine claims the Node; it calls claims only for a Node that was found.
//
// Call Resolve only when the lookup is complete: with an incomplete index it returns NotFound for a Node that exists.
func (r Rules) Resolve(id Identity, nodes Lookup, claims Claims) Match {
	if !ValidProviderID(id.ProviderID) {
		return Match{Outcome: NoProviderID}
	}
	found := nodes.ByProviderID(id.ProviderID)
	switch len(found) {
	case 0:
		return unmatched(id, nodes)
	case 1:
		return r.contested(id, matched(id, found[0], nodes), claims)
	default:
		return r.several(id, found, nodes, claims)
	}
}

// several decides between Nodes with one provider ID. Which of them runs on the instance is unknown; in a deletion it does not matter.
func (r Rules) several(id Identity, found []*corev1.Node, nodes Lookup, claims Claims) Match {
	if id.Deleting {
		for _, node := range found {
			if id.Current.UID != "" && RefTo(node) == id.Current {
				return r.contested(id, matched(id, node, nodes), claims)
			}
		}
	}
	m := Match{Outcome: Ambiguous, Candidates: found}
	for i := 0; id.Gone && i < len(found) && !m.Found(); i++ {
		m = r.contested(id, matched(id, found[i], nodes), claims)
	}
	return m
}

// unmatched decides the outcome when no Node has the Machine's provider ID.
func unmatched(id Identity, nodes Lookup) Match {
	if id.Current.Name != "" {
		if other := nodes.ByName(id.Current.Name); other != nil {
			return Match{Outcome: Stale, Other: other}
		}
	}
	return Match{Outcome: NotFound}
}

func matched(id Identity, node *corev1.Node, nodes Lookup) Match {
	cur := id.Current
	uidChanged, nameChanged := cur.UID != "" && node.UID != cur.UID, cur.Name != "" && node.Name != cur.Name
	m := Match{Outcome: Matched, Node: node, Record: RefTo(node) != cur || cur.UID == ""}
	if uidChanged || nameChanged {
		m.Outcome = Readopted
	}
	if nameChanged {
		// A Node's provider ID cannot change, so if the recorded Node still exists, the Machine's provider ID changed.
		if other := nodes.ByName(cur.Name); other != nil && (cur.UID == "" || other.UID == cur.UID) {
			m.Other = other
		}
	}
	return m
}
