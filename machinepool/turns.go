package machinepool

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/drain"
)

// turn is what a process remembers about the drain of one Node.
type turn struct {
	// Began is when its drain began, and Moved when it got its turn or its pods came further. Lost is when it lost its turn; zero while it
	// has one.
	Began, Moved, Lost time.Time
	// Left is how many pods there were, and Blocked says that some of them were refused or are held by a budget.
	Left    int
	Blocked bool
}

// stuck reports whether no pod of a Node could be evicted for a while. Pods that terminate, however long that takes, count as progress. A
// patience of zero and below disables this.
func (t turn) stuck(patience time.Duration, now time.Time) bool {
	return t.Blocked && reached(t.Moved, patience, now)
}

// steps is the turn after a look at the pods.
func (t turn) steps(c drain.Counts, now time.Time) turn {
	left := c.Total - c.Ignored
	if left != t.Left || c.Terminating > 0 {
		t.Moved = now
	}
	t.Left, t.Blocked = left, c.Blocked > 0
	return t
}

// rank is when a Node gets a turn, before those of a higher class and, in its class, before those of a later time.
type rank struct {
	class int
	since time.Time
}

// rankOf: first come Nodes whose time is up, which need no turn, then those that have one, as this process knows or the Node says, then
// those that wait for their first one, and at last those that have lost it, or are stuck and lose it now if others wait. So a Node without
// pods is drained however many are stuck behind budgets, and each of those comes again.
func rankOf(node *corev1.Node, t turn, known, expired bool, patience time.Duration, now time.Time) rank {
	_, says := node.Annotations[contract.DrainStartedAnnotation]
	switch {
	case expired:
		return rank{class: 0}
	case !t.Lost.IsZero():
		return rank{3, t.Lost}
	case t.stuck(patience, now):
		return rank{3, now}
	case known || says:
		return rank{class: 1}
	}
	return rank{class: 2}
}

// inTurn sorts Nodes by when they get a turn.
func inTurn(
	nodes []*corev1.Node, turns map[types.UID]turn, expired func(*corev1.Node) bool, patience time.Duration, now time.Time,
) []*corev1.Node {
	ranks := make(map[types.UID]rank, len(nodes))
	for _, node := range nodes {
		t, known := turns[node.UID]
		ranks[node.UID] = rankOf(node, t, known, expired(node), patience, now)
	}
	return slices.SortedStableFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		x, y := ranks[a.UID], ranks[b.UID]
		return cmp.Or(cmp.Compare(x.class, y.class), x.since.Compare(y.since))
	})
}

// takes gives a Node its turn, and returns when its drain began.
func (r *recollection) takes(node types.UID, now time.Time) time.Time {
	t, known := r.turns[node]
	if !known {
		t.Began = now
	}
	if !known || !t.Lost.IsZero() {
		t.Moved, t.Lost, t.Blocked = now, time.Time{}, false
	}
	r.turns[node] = t
	return t.Began
}

// passOn ends the turns of Nodes that got none now, and forgets Nodes that are not drained any more. It returns when the next Node is stuck
// while another one waits for its turn; zero for never.
func (r *recollection) passOn(nodes []*corev1.Node, keep map[string]struct{}, patience time.Duration, now time.Time) (again time.Duration) {
	wanted := make(map[types.UID]struct{}, len(nodes))
	for _, node := range nodes {
		wanted[node.UID] = struct{}{}
		t, known := r.turns[node.UID]
		_, kept := keep[node.Name]
		switch {
		case known && !kept && t.Lost.IsZero():
			t.Lost = now
			r.turns[node.UID] = t
		case kept && t.Blocked && len(keep) < len(nodes) && patience > 0:
			again = pass.Soonest(again, max(t.Moved.Add(patience).Sub(now), time.Second))
		}
	}
	maps.DeleteFunc(r.turns, func(uid types.UID, _ turn) bool {
		_, found := wanted[uid]
		return !found
	})
	return again
}
