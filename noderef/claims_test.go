package noderef

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// fleet returns every Machine, which Claims may do.
type fleet []Identity

func (f fleet) claims(*corev1.Node) []Identity { return f }

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

func machine(name, providerID string, current contract.NodeRef) Identity {
	return Identity{Machine: key(name), ProviderID: providerID, Current: current}
}

func TestAContestedNodeStaysWithTheMachineThatAloneHasRecordedIt(t *testing.T) {
	const id = "test://1"
	node := newNode("n", "u1", id)
	ref := RefTo(node)
	kept := func(rivals ...Claim) Match {
		return Match{Outcome: Matched, Node: node, Rivals: rivals}
	}
	lost := func(rivals ...Claim) Match { return Match{Outcome: Claimed, Other: node, Rivals: rivals} }

	cases := []struct {
		name   string
		reason string
		me     Identity
		others fleet
		want   Match
	}{
		{
			name: "no other Machine claims it", me: machine("a", id, contract.NodeRef{}),
			others: fleet{machine("b", "test://2", contract.NodeRef{}), machine("c", "", contract.NodeRef{})},
			want:   Match{Outcome: Matched, Node: node, Record: true},
		},
		{name: "the own claim does not count", me: machine("a", id, ref), others: fleet{machine("a", id, ref)}, want: kept()},
		{
			name: "two claim it and neither has recorded it", reason: "the first one to see it must not drain it",
			me:     machine("a", id, contract.NodeRef{}),
			others: fleet{machine("c", id, contract.NodeRef{}), machine("b", id, contract.NodeRef{}), machine("b", id, contract.NodeRef{})},
			want:   lost(Claim{Machine: key("b")}, Claim{Machine: key("c")}),
		},
		{
			name: "only this Machine has recorded it", me: machine("a", id, ref), others: fleet{machine("b", id, contract.NodeRef{})},
			want: kept(Claim{Machine: key("b")}),
		},
		{
			name: "another has recorded it", me: machine("b", id, contract.NodeRef{}), others: fleet{machine("a", id, ref)},
			want: lost(Claim{Machine: key("a"), Recorded: true}),
		},
		{
			name: "another has recorded its UID, and its name is not written yet", me: machine("b", id, contract.NodeRef{}),
			others: fleet{machine("a", id, contract.NodeRef{UID: "u1"})}, want: lost(Claim{Machine: key("a"), Recorded: true}),
		},
		{
			name: "both have recorded it", reason: "two passes at one moment, or an object that was copied with its status",
			me: machine("a", id, ref), others: fleet{machine("b", id, ref)}, want: lost(Claim{Machine: key("b"), Recorded: true}),
		},
		{
			name: "a record by name only does not count", reason: "Cluster API matches both and records the name for both",
			me: machine("a", id, contract.NodeRef{Name: "n"}), others: fleet{machine("b", id, contract.NodeRef{Name: "n"})},
			want: lost(Claim{Machine: key("b")}),
		},
		{
			name: "the Node was replaced since it was recorded", reason: "the new one may be the other's",
			me: machine("a", id, contract.NodeRef{Name: "n", UID: "u0"}), others: fleet{machine("b", id, contract.NodeRef{})},
			want: lost(Claim{Machine: key("b")}),
		},
		{
			name: "another has recorded it and has another provider ID now", reason: "a record does not count against the provider ID of both",
			me: machine("a", id, contract.NodeRef{}), others: fleet{machine("b", "test://2", ref)},
			want: Match{Outcome: Matched, Node: node, Record: true},
		},
		{
			name: "a namesake in another namespace is another Machine", me: machine("a", id, contract.NodeRef{}),
			others: fleet{{Machine: types.NamespacedName{Namespace: "other", Name: "a"}, ProviderID: id}},
			want:   lost(Claim{Machine: types.NamespacedName{Namespace: "other", Name: "a"}}),
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got := Rules{}.Resolve(tc.me, BuildIndex([]*corev1.Node{node}), tc.others.claims)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateComparable(&corev1.Node{})); diff != "" {
				t.Errorf("%s\nResolve() (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// Of the Nodes that are left of an instance, one that another Machine claims stays.
func TestSeveralNodesAndTheirClaims(t *testing.T) {
	const id = "test://1"
	a, b := newNode("a", "u1", id), newNode("b", "u2", id)
	me := machine("m", id, contract.NodeRef{})
	me.Deleting, me.Gone = true, true
	onlyOn := func(claimed *corev1.Node) Claims {
		return Claims(func(n *corev1.Node) []Identity {
			if n.UID == claimed.UID {
				return []Identity{machine("other", id, RefTo(claimed))}
			}
			return nil
		})
	}
	index := BuildIndex([]*corev1.Node{a, b})
	require.Equal(t, Match{Outcome: Matched, Node: b, Record: true}, Rules{}.Resolve(me, index, onlyOn(a)))
	require.Equal(t, Match{Outcome: Matched, Node: a, Record: true}, Rules{}.Resolve(me, index, onlyOn(b)))
	everybody := fleet{machine("other", id, contract.NodeRef{})}
	require.Equal(t, Claimed, Rules{}.Resolve(me, index, everybody.claims).Outcome)
}

func TestClaimsUseTheSameKeysAsLookups(t *testing.T) {
	rules := Rules{Canonical: strings.ToLower}
	x := NewIndex(rules)
	x.Add(newNode("n", "u1", "test://one"))
	others := fleet{machine("b", "test://ONE", contract.NodeRef{})}
	require.Equal(t, Claimed, rules.Resolve(machine("a", "test://One", contract.NodeRef{}), x, others.claims).Outcome)
}

// No Node belongs to two Machines, whatever the order of the Machines and their records.
func TestNoNodeBelongsToTwoMachines(t *testing.T) {
	node := newNode("n", "u1", "test://1")
	index := BuildIndex([]*corev1.Node{node})
	refs := []contract.NodeRef{{}, {Name: "n"}, RefTo(node), {Name: "n", UID: "u0"}, {Name: "x", UID: "u1"}}
	ids := []string{"", "test://1", "test://2"}
	var choices []Identity
	for _, id := range ids {
		for _, ref := range refs {
			choices = append(choices, Identity{ProviderID: id, Current: ref})
		}
	}
	for _, a := range choices {
		for _, b := range choices {
			for _, c := range choices {
				a.Machine, b.Machine, c.Machine = key("a"), key("b"), key("c")
				all := fleet{a, b, c}
				holders := 0
				for _, id := range all {
					if m := (Rules{}).Resolve(id, index, all.claims); m.Found() {
						holders++
						require.True(t, len(m.Rivals) == 0 || id.Current.UID == node.UID)
					}
				}
				require.LessOrEqual(t, holders, 1, "%+v", all)
			}
		}
	}
}

func TestClaimsAreNotReadWithoutANode(t *testing.T) {
	node := newNode("n", "u1", "test://1")
	asked := 0
	claims := Claims(func(*corev1.Node) []Identity { asked++; return nil })
	index := BuildIndex([]*corev1.Node{node, newNode("x", "u2", "test://2"), newNode("y", "u3", "test://2")})
	for _, id := range []string{"", "test://none", "test://2"} {
		Rules{}.Resolve(Identity{ProviderID: id, Current: RefTo(node)}, index, claims)
	}
	require.Zero(t, asked)
	Rules{}.Resolve(Identity{ProviderID: "test://1"}, index, claims)
	require.Equal(t, 1, asked)
}

func TestAMatchWithoutRivalsAllocatesNothing(t *testing.T) {
	index := BuildIndex([]*corev1.Node{newNode("n", "u1", "test://1")})
	me := machine("a", "test://1", contract.NodeRef{})
	var all Claims = fleet(slices.Repeat([]Identity{me}, 3)).claims
	require.Zero(t, testing.AllocsPerRun(100, func() { Rules{}.Resolve(me, index, all) }))
}
