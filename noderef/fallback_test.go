package noderef

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var asked = time.Unix(1000, 0)

// joined returns a Node that registered some seconds after the instance was created.
func joined(name string, after int, providerID string, addresses ...string) *corev1.Node {
	n := newNode(name, "uid-"+name, providerID)
	n.CreationTimestamp = metav1.NewTime(asked.Add(time.Duration(after) * time.Second))
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func instance(name string, addresses ...string) Identity {
	id := Identity{Machine: key(name), NodeName: name, Created: asked}
	for _, a := range addresses {
		id.Addresses = append(id.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return id
}

func TestFallbacksAreOffByDefault(t *testing.T) {
	x := NewIndex(Rules{})
	x.Add(joined("m", 10, "", "10.0.0.1"))
	require.Equal(t, NoProviderID, Resolve(instance("m", "10.0.0.1"), x).Outcome)
	id := instance("m", "10.0.0.1")
	id.ProviderID = "test://1"
	require.Equal(t, NotFound, Resolve(id, x).Outcome)
}

func TestFallbacksAreGuardedAgainstReuse(t *testing.T) {
	both := Rules{ByName: true, ByAddress: true}
	n := joined("m", 10, "", "10.0.0.1")
	elsewhere := joined("ip-10-0-0-1", 10, "", "10.0.0.1")
	going := joined("m", 10, "")
	going.DeletionTimestamp = &n.CreationTimestamp
	with := func(id Identity, change func(*Identity)) Identity {
		change(&id)
		return id
	}
	hostname := func(name string) func(*Identity) {
		return func(id *Identity) {
			id.Addresses = append(id.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
		}
	}
	recordedAs := func(ref Ref) func(*Identity) { return func(id *Identity) { id.Current = ref } }
	refused := func(node *corev1.Node, why Refusal) Match {
		return Match{Outcome: NoProviderID, Other: node, Refused: why}
	}

	cases := []struct {
		name   string
		rules  Rules
		id     Identity
		nodes  []*corev1.Node
		others fleet
		want   Match
	}{
		{
			name: "the expected name", rules: both, id: instance("m"), nodes: []*corev1.Node{n},
			want: Match{Outcome: Matched, By: ByName, Node: n, Record: true},
		},
		{
			name: "the address", rules: both, id: instance("m", "10.0.0.1"), nodes: []*corev1.Node{elsewhere},
			want: Match{Outcome: Matched, By: ByAddress, Node: elsewhere, Record: true},
		},
		{
			name: "the address and the host name", rules: both, id: with(instance("m", "10.0.0.1"), hostname("ip-10-0-0-1")),
			nodes: []*corev1.Node{elsewhere}, want: Match{Outcome: Matched, By: ByAddress, Node: elsewhere, Record: true},
		},
		{
			name: "the address, but another host name", rules: both, id: with(instance("m", "10.0.0.1"), hostname("m")),
			nodes: []*corev1.Node{elsewhere}, want: refused(elsewhere, RefusedHostname),
		},
		{
			name: "only names are enabled", rules: Rules{ByName: true}, id: instance("m", "10.0.0.1"), nodes: []*corev1.Node{elsewhere},
			want: Match{Outcome: NoProviderID},
		},
		{
			name: "only addresses are enabled", rules: Rules{ByAddress: true}, id: instance("m"), nodes: []*corev1.Node{n},
			want: Match{Outcome: NoProviderID},
		},
		{
			name: "a Node of the same second", rules: both, id: instance("m"), nodes: []*corev1.Node{joined("m", 0, "")},
			want: Match{Outcome: Matched, By: ByName, Node: joined("m", 0, ""), Record: true},
		},
		{
			name: "a Node that is older", rules: both, id: instance("m"), nodes: []*corev1.Node{joined("m", -1, "")},
			want: refused(joined("m", -1, ""), RefusedOlder),
		},
		{
			name: "an instance of unknown age", rules: both, id: with(instance("m"), func(id *Identity) { id.Created = time.Time{} }),
			nodes: []*corev1.Node{n}, want: refused(n, RefusedOlder),
		},
		{
			name: "a Node with a provider ID, before the Machine has one", rules: both, id: instance("m"),
			nodes: []*corev1.Node{joined("m", 10, "test://9")}, want: refused(joined("m", 10, "test://9"), RefusedProviderID),
		},
		{
			name: "a Node in deletion", rules: both, id: instance("m"), nodes: []*corev1.Node{going}, want: refused(going, RefusedDeleting),
		},
		{
			name: "two Nodes have the address", rules: both, id: instance("x", "10.0.0.1"), nodes: []*corev1.Node{n, elsewhere},
			want: Match{Outcome: Ambiguous, Candidates: []*corev1.Node{elsewhere, n}},
		},
		{
			name: "a provider ID beats the name", rules: both, id: with(instance("m"), func(id *Identity) { id.ProviderID = "test://1" }),
			nodes: []*corev1.Node{n, joined("other", 10, "test://1")},
			want:  Match{Outcome: Matched, By: ByProviderID, Node: joined("other", 10, "test://1"), Record: true},
		},
		{
			name: "a Machine with a provider ID whose Node has none", rules: both,
			id:    with(instance("m"), func(id *Identity) { id.ProviderID = "test://1" }),
			nodes: []*corev1.Node{n}, want: Match{Outcome: Matched, By: ByName, Node: n, Record: true},
		},
		{
			name: "a recorded Node stays", rules: both, id: with(instance("m"), recordedAs(RefTo(n))), nodes: []*corev1.Node{n},
			want: Match{Outcome: Matched, By: ByRecord, Node: n},
		},
		{
			name: "a Node whose UID was recorded before its name", rules: both, id: with(instance("m"), recordedAs(Ref{UID: "uid-m"})),
			nodes: []*corev1.Node{n}, want: Match{Outcome: Matched, By: ByName, Node: n, Record: true},
		},
		{
			name: "the UID of another Node was recorded", rules: both, id: with(instance("m"), recordedAs(Ref{UID: "before"})),
			nodes: []*corev1.Node{n}, want: Match{Outcome: NoProviderID},
		},
		{
			name: "a recorded Node that registered again is not adopted on its name", rules: both,
			id: with(instance("m"), recordedAs(Ref{Name: "m", UID: "before"})), nodes: []*corev1.Node{n},
			want: Match{Outcome: Stale, Other: n},
		},
		{
			name: "a recorded Node that turns out to be another's", rules: both, id: with(instance("m"), recordedAs(Ref{Name: "m", UID: "uid-m"})),
			nodes: []*corev1.Node{joined("m", 10, "test://9")}, want: Match{Outcome: Stale, Other: joined("m", 10, "test://9")},
		},
		{
			name: "a recorded Node that is gone is not exchanged for one with its address", rules: both,
			id: with(instance("m", "10.0.0.1"), recordedAs(Ref{Name: "gone", UID: "g"})), nodes: []*corev1.Node{elsewhere},
			want: Match{Outcome: NoProviderID},
		},
		{
			name: "another Machine has the address too", rules: both, id: instance("m", "10.0.0.1"), nodes: []*corev1.Node{elsewhere},
			others: fleet{instance("old", "10.0.0.1")},
			want:   Match{Outcome: Claimed, Other: elsewhere, Rivals: []Claim{{Machine: key("old")}}},
		},
		{
			name: "another Machine has recorded it", rules: both, id: instance("m"), nodes: []*corev1.Node{n},
			others: fleet{with(instance("b"), recordedAs(RefTo(n)))},
			want:   Match{Outcome: Claimed, Other: n, Rivals: []Claim{{Machine: key("b"), Recorded: true}}},
		},
		{
			name: "another Machine had the address and has a Node of its own", rules: both, id: instance("m", "10.0.0.1"),
			nodes: []*corev1.Node{elsewhere}, others: fleet{with(instance("old", "10.0.0.1"), recordedAs(Ref{Name: "old", UID: "o"}))},
			want: Match{Outcome: Matched, By: ByAddress, Node: elsewhere, Record: true},
		},
	}
	sameNode := cmp.Comparer(func(a, b *corev1.Node) bool { return RefTo(a) == RefTo(b) })
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			x := NewIndex(tc.rules)
			for _, node := range tc.nodes {
				x.Add(node)
			}
			got := tc.rules.Resolve(tc.id, x, tc.others)
			if diff := cmp.Diff(tc.want, got, sameNode, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Resolve() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARecordedNodeWithoutAProviderIDMayBeTouchedIfAFallbackIsOn(t *testing.T) {
	n := joined("m", 10, "")
	for _, rules := range []Rules{{ByName: true}, {ByAddress: true}} {
		require.True(t, rules.MayTouch(n, RefTo(n), ""))
		require.True(t, rules.MayTouch(n, RefTo(n), "test://1"))
		require.False(t, rules.MayTouch(n, Ref{Name: "m", UID: "before"}, ""))
		require.False(t, rules.MayTouch(n, Ref{Name: "m"}, ""))
		require.False(t, rules.MayTouch(joined("m", 10, "test://9"), RefTo(n), "test://1"))
	}
	require.False(t, MayTouch(n, RefTo(n), "test://1"))
	aws := newNode("m", "u", "aws:////"+ec2)
	require.True(t, Rules{Canonical: AWS}.MayTouch(aws, RefTo(aws), "aws:///z/"+ec2))
	require.False(t, MayTouch(aws, RefTo(aws), "aws:///z/"+ec2))
}

func TestTheIndexFollowsAddresses(t *testing.T) {
	x := NewIndex(Rules{ByAddress: true})
	a := joined("a", 1, "", "10.0.0.1", "fd00::1")
	x.Add(a)
	x.Add(joined("b", 1, "", "10.0.0.1"))
	require.Len(t, x.ByAddress("10.0.0.1"), 2)
	require.Same(t, a, x.ByAddress("fd00::1")[0])
	x.Add(joined("a", 1, "", "10.0.0.2"))
	require.Len(t, x.ByAddress("10.0.0.1"), 1)
	require.Empty(t, x.ByAddress("fd00::1"))
	x.Remove("a")
	x.Remove("b")
	require.Empty(t, x.ByAddress("10.0.0.2"))
	require.Empty(t, x.ByAddress(""))
	require.Empty(t, BuildIndex([]*corev1.Node{a}).ByAddress("10.0.0.1"), "addresses are not indexed unless they are asked for")
}

func TestEveryRefusalHasAText(t *testing.T) {
	for r := NotRefused; r <= RefusedHostname; r++ {
		require.NotEqual(t, Refusal(99).String(), r.String())
	}
}

// byNameOnly is a Lookup that does not know addresses.
type byNameOnly struct{ Lookup }

func TestALookupWithoutAddressesFindsNothingByAddress(t *testing.T) {
	x := NewIndex(Rules{ByAddress: true})
	x.Add(joined("elsewhere", 10, "", "10.0.0.1"))
	require.Equal(t, ByAddress, Rules{ByAddress: true}.Resolve(instance("m", "10.0.0.1"), x, nil).By)
	require.Equal(t, NoProviderID, Rules{ByAddress: true}.Resolve(instance("m", "10.0.0.1"), byNameOnly{x}, nil).Outcome)
}

func TestOnlyInternalAddressesAreShared(t *testing.T) {
	x := NewIndex(Rules{ByAddress: true})
	outside := joined("outside", 10, "")
	outside.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "1.2.3.4"}, {Type: corev1.NodeInternalIP}}
	first, second := joined("a", 10, "", "10.0.0.1"), joined("b", 10, "", "10.0.0.2")
	for _, n := range []*corev1.Node{outside, first, second} {
		x.Add(n)
	}
	require.Empty(t, x.ByAddress("1.2.3.4"))
	require.Empty(t, x.ByAddress(""))
	id := instance("m", "10.0.0.2", "10.0.0.1", "")
	require.Equal(t, []*corev1.Node{first, second}, sharingAddress(id, x), "sorted by name, whatever the order of the addresses")
	id.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeInternalIP}}
	require.Empty(t, sharingAddress(id, x))
}

func TestLooksLike(t *testing.T) {
	both := Rules{ByName: true, ByAddress: true}
	external := instance("other")
	external.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeInternalIP}}
	nameless := instance("", "10.0.0.9")
	n := joined("m", 10, "", "10.0.0.1", "")
	for name, tc := range map[string]struct {
		rules Rules
		id    Identity
		node  *corev1.Node
		want  bool
	}{
		"by its name":                      {both, instance("m"), n, true},
		"by an address":                    {both, instance("other", "10.0.0.9", "10.0.0.1"), n, true},
		"by neither":                       {both, instance("other", "10.0.0.9"), n, false},
		"an external address is not its":   {both, external, n, false},
		"names do not count":               {Rules{ByAddress: true}, instance("m", "10.0.0.9"), n, false},
		"addresses do not count":           {Rules{ByName: true}, instance("other", "10.0.0.1"), n, false},
		"a Machine without a name has one": {both, nameless, &corev1.Node{}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, tc.rules.looksLike(tc.id, tc.node)) })
	}
}
