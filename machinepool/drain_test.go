package machinepool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
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

// keptVolumes are volumes that stay attached to some Nodes.
type keptVolumes struct{ nodes sets.Set[string] }

func (v *keptVolumes) StepVolumes(_ context.Context, request runner.VolumeRequest) (runner.VolumesResult, error) {
	return runner.VolumesResult{Done: !v.nodes.Has(request.Node.Name), Message: "* a volume"}, nil
}

func (*keptVolumes) Release(string) {}

// podsEnd is a Drainer of Nodes some of which have a pod that ends.
type podsEnd struct {
	steps

	on sets.Set[string]
}

func (e *podsEnd) Step(ctx context.Context, request runner.Request) (runner.Result, error) {
	e.result = runner.Result{Done: true}
	if e.on.Has(request.Node.Name) {
		e.result = runner.Result{Counts: drain.Counts{Total: 1, Terminating: 1}}
	}
	return e.steps.Step(ctx, request)
}

func TestNodesThatOnlyWaitForVolumesTakeNoTurnFromOthers(t *testing.T) {
	p, _, _ := draining(t, &api{}, 0)
	p.env.limits.draining = 2
	drainer, volumes := &podsEnd{on: sets.New("e", "f", "g")}, &keptVolumes{nodes: sets.New("a", "b", "d")}
	p.workload.Drainer, p.workload.Volumes = drainer, volumes
	var nodes []*corev1.Node
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		nodes = append(nodes, testNode(name, "", func(n *corev1.Node) { n.Spec.Unschedulable = true }))
	}
	look := func() (asked, over []string) {
		drainer.asked, p.Now = nil, p.Now.Add(time.Second)
		require.NoError(t, p.drain(t.Context(), nodes, time.Time{}, func(node *corev1.Node) error {
			over = append(over, node.Name)
			return nil
		}))
		nodes = slices.DeleteFunc(nodes, func(n *corev1.Node) bool { return slices.Contains(over, n.Name) })
		return drainer.asked, over
	}
	asked, over := look()
	require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, asked, "e and f have the turns")
	require.Equal(t, []string{"c"}, over)
	began := p.Now
	for range 2 {
		asked, over = look()
		require.Equal(t, []string{"a", "b", "d", "e", "f"}, asked)
		require.Empty(t, over)
	}
	require.Equal(t, []string{"c"}, drainer.released)
	require.Equal(t, map[string]time.Time{"a": began, "b": began, "d": began}, p.mem().detaching, "the limits of the others count on")

	drainer.on.Insert("b")
	asked, _ = look()
	require.Equal(t, []string{"a", "b", "d", "e"}, asked, "b has a pod again, and needs a turn")
	require.Equal(t, []string{"c", "f"}, drainer.released)
	volumes.nodes.Delete("d")
	asked, over = look()
	require.Equal(t, []string{"a", "b", "d", "e"}, asked)
	require.Equal(t, []string{"d"}, over, "it needs no turn for that")
}

func TestADrainBesideNodesThatWaitForVolumesBeginsWhenItsNodeIsCordoned(t *testing.T) {
	a := &api{}
	p, _, _ := draining(t, a, 0)
	p.env.limits.draining, p.env.options.Parallel = 1, 1
	p.mem().turns["a-uid"] = turn{Detaching: true}
	cordoned := testNode("a", "", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	require.NoError(t, p.drain(t.Context(), []*corev1.Node{cordoned, testNode("b", ""), testNode("c", "")}, time.Time{}, nil))
	require.Len(t, a.patched, 2)
	for i, begins := range []bool{true, false} {
		require.Equal(t, begins, strings.Contains(a.patched[i], annotationPath(contract.DrainStartedAnnotation)), a.patched[i])
	}
}

func TestANodeNeedsATurnAgainWhenPodsAreSeenOnIt(t *testing.T) {
	now := time.Unix(1000, 0)
	waits := turn{Detaching: true}
	require.True(t, waits.steps(drain.Counts{}, now).Detaching, "its pods are not listed yet")
	require.True(t, waits.steps(drain.Counts{Total: 2, Ignored: 2}, now).Detaching)
	require.False(t, waits.steps(drain.Counts{Total: 3, Ignored: 2}, now).Detaching)
}

func TestNodesWhoseWritesAreRefusedComeLast(t *testing.T) {
	at := time.Unix(1000, 0)
	nodes := []*corev1.Node{testNode("a", ""), testNode("b", ""), testNode("c", ""), testNode("d", "")}
	refused := map[types.UID]time.Time{"a-uid": at.Add(time.Second), "c-uid": at}
	if diff := cmp.Diff([]string{"b", "d", "c", "a"}, names(byRefusal(nodes, refused))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
