package noderef

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
)

func TestResolve(t *testing.T) {
	const id = "test://1"
	a := newNode("a", "u1", id)
	b := newNode("b", "u2", id)
	foreign := newNode("a", "u9", "test://9")
	blank := newNode("a", "u9", "")

	cases := []struct {
		name   string
		reason string
		id     Identity
		nodes  []*corev1.Node
		want   Match
	}{
		{
			name: "the first match is to be recorded", id: Identity{ProviderID: id}, nodes: []*corev1.Node{a},
			want: Match{Outcome: Matched, Node: a, Record: true},
		},
		{
			name: "a recorded Node matches again", id: Identity{ProviderID: id, Current: RefTo(a)}, nodes: []*corev1.Node{a},
			want: Match{Outcome: Matched, Node: a},
		},
		{
			name: "a reference by name only gets its UID", reason: "Cluster API records the name alone",
			id: Identity{ProviderID: id, Current: contract.NodeRef{Name: "a"}}, nodes: []*corev1.Node{a},
			want: Match{Outcome: Matched, Node: a, Record: true},
		},
		{
			name:   "a Node that registered again is adopted with its new UID",
			reason: "it is the same instance, but nothing destructive may happen before the new UID is recorded",
			id:     Identity{ProviderID: id, Current: contract.NodeRef{Name: "a", UID: "u0"}}, nodes: []*corev1.Node{a},
			want: Match{Outcome: Readopted, Node: a, Record: true},
		},
		{
			name: "a Node that registered again under another name is adopted",
			id:   Identity{ProviderID: id, Current: contract.NodeRef{Name: "z", UID: "u0"}}, nodes: []*corev1.Node{a},
			want: Match{Outcome: Readopted, Node: a, Record: true},
		},
		{
			name: "a Machine whose provider ID changed gets the previous Node as Other", reason: "a Node's own provider ID cannot change",
			id: Identity{ProviderID: "test://9", Current: RefTo(b)}, nodes: []*corev1.Node{b, foreign},
			want: Match{Outcome: Readopted, Node: foreign, Record: true, Other: b},
		},
		{
			name: "no Node has the provider ID", id: Identity{ProviderID: id}, nodes: []*corev1.Node{foreign}, want: Match{Outcome: NotFound},
		},
		{
			name: "the recorded Node is gone", id: Identity{ProviderID: id, Current: RefTo(b)}, nodes: []*corev1.Node{foreign},
			want: Match{Outcome: NotFound},
		},
		{
			name: "the recorded name belongs to another instance now", id: Identity{ProviderID: id, Current: RefTo(a)},
			nodes: []*corev1.Node{foreign}, want: Match{Outcome: Stale, Other: foreign},
		},
		{
			name: "the recorded name has no provider ID yet", reason: "it may be anybody's until it has one",
			id: Identity{ProviderID: id, Current: RefTo(a)}, nodes: []*corev1.Node{blank}, want: Match{Outcome: Stale, Other: blank},
		},
		{
			name:   "two Nodes have the provider ID",
			reason: "the recorded one is not preferred: which of them runs on the instance is not known",
			id:     Identity{ProviderID: id, Current: RefTo(a)}, nodes: []*corev1.Node{b, a},
			want: Match{Outcome: Ambiguous, Candidates: []*corev1.Node{a, b}},
		},
		{
			name: "two Nodes have the provider ID of a Machine in deletion", id: Identity{ProviderID: id, Current: RefTo(a), Deleting: true},
			nodes: []*corev1.Node{b, a}, want: Match{Outcome: Matched, Node: a},
		},
		{
			name:   "two Nodes have the provider ID of a Machine in deletion that has recorded none",
			reason: "its instance runs, and which of them has its pods is not known", id: Identity{ProviderID: id, Deleting: true},
			nodes: []*corev1.Node{b, a}, want: Match{Outcome: Ambiguous, Candidates: []*corev1.Node{a, b}},
		},
		{
			name:  "two Nodes are left of an instance",
			id:    Identity{ProviderID: id, Current: contract.NodeRef{Name: "c", UID: "u9"}, Deleting: true, Gone: true},
			nodes: []*corev1.Node{b, a}, want: Match{Outcome: Readopted, Node: a, Record: true},
		},
		{
			name: "an empty provider ID matches nothing", reason: "also when Nodes have none either, as Nodes that just joined do",
			id: Identity{Current: RefTo(blank)}, nodes: []*corev1.Node{blank}, want: Match{Outcome: NoProviderID},
		},
		{
			name: "a provider ID that names no instance matches nothing", id: Identity{ProviderID: "aws://"},
			nodes: []*corev1.Node{newNode("a", "u1", "aws://")}, want: Match{Outcome: NoProviderID},
		},
		{
			name: "provider IDs are opaque", reason: "case, slashes and last segments differ between instances that are different",
			id: Identity{ProviderID: "TEST://1"}, nodes: []*corev1.Node{a, newNode("c", "u3", "test:///1"), newNode("d", "u4", "other://1")},
			want: Match{Outcome: NotFound},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got := Rules{}.Resolve(tc.id, BuildIndex(tc.nodes), nil)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateComparable(&corev1.Node{})); diff != "" {
				t.Errorf("%s\nResolve() (-want +got):\n%s", tc.reason, diff)
			}
			if found := tc.want.Node != nil; got.Found() != found {
				t.Errorf("Found() = %v, want %v", got.Found(), found)
			}
		})
	}
}

func TestResolveAllocatesNothing(t *testing.T) {
	index := BuildIndex([]*corev1.Node{
		newNode("a", "u1", "test://1"), newNode("b", "u2", "test://2"), newNode("c", "u3", "test://2"),
	})
	cases := map[string]Identity{
		"hit":       {ProviderID: "test://1"},
		"readopted": {ProviderID: "test://1", Current: contract.NodeRef{Name: "b", UID: "u0"}},
		"miss":      {ProviderID: "test://none"},
		"stale":     {ProviderID: "test://none", Current: contract.NodeRef{Name: "a", UID: "u1"}},
		"ambiguous": {ProviderID: "test://2"},
		"empty":     {},
	}
	for name, id := range cases {
		if n := testing.AllocsPerRun(100, func() { Rules{}.Resolve(id, index, nil) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

func TestEveryOutcomeHasAName(t *testing.T) {
	for o := Unknown; o <= Claimed; o++ {
		require.NotContains(t, o.String(), "(")
	}
	require.Equal(t, "Outcome(99)", Outcome(99).String())
}

func BenchmarkResolve(b *testing.B) {
	for _, size := range []int{10_000, 50_000} {
		nodes := make([]*corev1.Node, size)
		for i := range nodes {
			nodes[i] = newNode(fmt.Sprintf("node-%d", i), fmt.Sprint(i), fmt.Sprintf("test:///zone/i-%d", i))
		}
		index := BuildIndex(nodes)
		for name, id := range map[string]string{"hit": "test:///zone/i-5000", "miss": "test:///zone/i-none"} {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Rules{}.Resolve(Identity{ProviderID: id}, index, nil)
				}
			})
		}
	}
}

func TestARecordedNodeThatStillExistsIsReportedWhenAnotherHasTheProviderID(t *testing.T) {
	old, now := newNode("old", "uid-old", "test://0"), newNode("now", "uid-now", "test://1")
	x := NewIndex(Rules{})
	x.Add(old)
	x.Add(now)
	for name, tc := range map[string]struct {
		current contract.NodeRef
		want    *corev1.Node
	}{
		"recorded with its UID":       {contract.NodeRef{Name: "old", UID: "uid-old"}, old},
		"recorded by its name":        {contract.NodeRef{Name: "old"}, old},
		"replaced under its name":     {contract.NodeRef{Name: "old", UID: "uid-older"}, nil},
		"gone":                        {contract.NodeRef{Name: "older", UID: "uid-older"}, nil},
		"recorded, and the very Node": {contract.NodeRef{Name: "now", UID: "uid-now"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Rules{}.Resolve(Identity{Machine: key("m"), ProviderID: "test://1", Current: tc.current}, x, nil)
			require.Equal(t, now, got.Node)
			require.Equal(t, tc.want, got.Other)
		})
	}
}
