package machinepool

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
)

func TestWhichNodesGetATurn(t *testing.T) {
	now := time.Unix(10000, 0)
	begun := func(n *corev1.Node) {
		n.Annotations = map[string]string{contract.DrainStartedAnnotation: "2026-01-01T00:00:00Z"}
	}
	nodes := []*corev1.Node{
		testNode("lost-lately", ""), testNode("stuck", ""), testNode("lost-long-ago", ""), testNode("new", ""), testNode("newer", ""),
		testNode("moves", ""), testNode("ends", ""), testNode("of-another-process", "", begun), testNode("expired", ""),
	}
	turns := map[types.UID]turn{
		"lost-lately-uid": {Lost: now.Add(-time.Minute)}, "lost-long-ago-uid": {Lost: now.Add(-time.Hour)},
		"stuck-uid": {Moved: now.Add(-2 * time.Minute), Blocked: true}, "moves-uid": {Moved: now.Add(-time.Second), Blocked: true},
		"ends-uid": {Moved: now.Add(-2 * time.Minute)}, "expired-uid": {Lost: now.Add(-time.Second)},
	}
	expired := func(n *corev1.Node) bool { return n.Name == "expired" }
	for name, tc := range map[string]struct {
		patience time.Duration
		want     []string
	}{
		"those that are stuck come last": {time.Minute, []string{
			"expired", "moves", "ends", "of-another-process", "new", "newer", "lost-long-ago", "lost-lately", "stuck"}},
		"none ever is": {-1, []string{
			"expired", "stuck", "moves", "ends", "of-another-process", "new", "newer", "lost-long-ago", "lost-lately"}},
	} {
		if diff := cmp.Diff(tc.want, names(inTurn(nodes, turns, expired, tc.patience, now))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPodsThatEndAreUnderWay(t *testing.T) {
	began := time.Unix(1000, 0)
	later := began.Add(time.Hour)
	for name, tc := range map[string]struct {
		before turn
		counts drain.Counts
		stuck  bool
	}{
		"a budget holds the only pod": {turn{Moved: began, Left: 1}, drain.Counts{Total: 2, Ignored: 1, Blocked: 1}, true},
		"one has gone":                {turn{Moved: began, Left: 2}, drain.Counts{Total: 1, Blocked: 1}, false},
		"one ends beside it":          {turn{Moved: began, Left: 2}, drain.Counts{Total: 2, Terminating: 1, Blocked: 1}, false},
		"one completes":               {turn{Moved: began, Left: 1}, drain.Counts{Total: 1, Waiting: 1, Completing: 1}, false},
	} {
		if got := tc.before.steps(tc.counts, later).stuck(time.Minute, later); got != tc.stuck {
			t.Errorf("%s: stuck %v", name, got)
		}
	}
}

func TestNoNodeStarvesBehindThoseThatAreStuck(t *testing.T) {
	const most, patience = 3, time.Minute
	now := time.Unix(1000, 0)
	mem := &recollection{turns: map[types.UID]turn{}}
	var nodes []*corev1.Node
	for i := range 10 {
		nodes = append(nodes, testNode(fmt.Sprintf("stuck-%d", i), ""))
	}
	nodes = append(nodes, testNode("empty", ""))
	had := map[string]int{}
	for range 30 {
		keep := sets.Set[string]{}
		nodes = slices.DeleteFunc(nodes, func(n *corev1.Node) bool { return n.Name == "empty" && had["empty"] > 0 })
		order := inTurn(nodes, mem.turns, func(*corev1.Node) bool { return false }, patience, now)
		for _, node := range order[:most] {
			if had[node.Name] == 0 || !mem.turns[node.UID].Lost.IsZero() {
				had[node.Name]++
			}
			keep[node.Name] = struct{}{}
			mem.takes(node.UID, now)
			mem.turns[node.UID] = mem.turns[node.UID].steps(drain.Counts{Total: 1, Blocked: 1}, now)
		}
		again := mem.passOn(order, keep, patience, now)
		if again <= 0 || again > patience {
			t.Fatalf("a Node waits, and no pass comes before %s", again)
		}
		now = now.Add(again)
	}
	if had["empty"] != 1 {
		t.Errorf("the Node without pods had %d turns", had["empty"])
	}
	for i := range 10 {
		if n := had[fmt.Sprintf("stuck-%d", i)]; n < 5 {
			t.Errorf("Node %d had %d turns of 90", i, n)
		}
	}
	if len(mem.turns) != 10 {
		t.Errorf("what is drained no more is forgotten, got %d", len(mem.turns))
	}
}

func TestNodesWhoseWritesAreRefusedComeLast(t *testing.T) {
	at := time.Unix(1000, 0)
	nodes := []*corev1.Node{testNode("a", ""), testNode("b", ""), testNode("c", ""), testNode("d", "")}
	refused := map[types.UID]time.Time{"a-uid": at.Add(time.Second), "c-uid": at}
	if diff := cmp.Diff([]string{"b", "d", "c", "a"}, names(byRefusal(nodes, refused))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
