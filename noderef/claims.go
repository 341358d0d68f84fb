package noderef

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Claims returns the identities of the Machines that have a Node's provider ID, in any order, from a reconciler's cache of Machines. It may
// also return other Machines and the Machine that is being resolved. It is called only for a Node that was found.
type Claims func(node *corev1.Node) []Identity

// Claim is another Machine that claims the same Node.
type Claim struct {
	Machine types.NamespacedName
	// Recorded means that this Machine has recorded the Node by its UID.
	Recorded bool
}

// contested checks a match against the claims of other Machines. A Machine retains a Node that only it has recorded by UID. Otherwise no
// Machine gets the Node until a person resolves the conflict: two Machines that drain, delete or label one Node do more harm than one that
// waits. A Machine that is being deleted claims its Node until the Machine is gone.
func (r Rules) contested(id Identity, m Match, claims Claims) Match {
	if claims == nil {
		return m
	}
	rivals := r.rivals(id, m.Node, claims(m.Node))
	if len(rivals) == 0 {
		return m
	}
	mine := recorded(id, m.Node)
	theirs := slices.ContainsFunc(rivals, func(c Claim) bool { return c.Recorded })
	if mine && !theirs {
		m.Rivals = rivals
		return m
	}
	return Match{Outcome: Claimed, Other: m.Node, Rivals: rivals}
}

func (r Rules) rivals(id Identity, node *corev1.Node, all []Identity) []Claim {
	var rivals []Claim
	for _, other := range all {
		if other.Machine != id.Machine && r.Same(other.ProviderID, node.Spec.ProviderID) {
			rivals = append(rivals, Claim{Machine: other.Machine, Recorded: recorded(other, node)})
		}
	}
	slices.SortFunc(rivals, func(a, b Claim) int {
		return strings.Compare(a.Machine.String(), b.Machine.String())
	})
	return slices.CompactFunc(rivals, func(a, b Claim) bool { return a.Machine == b.Machine })
}

// recorded compares only the UID, which is unique; the name may be recorded later.
func recorded(id Identity, node *corev1.Node) bool {
	return id.Current.UID != "" && id.Current.UID == node.UID
}
