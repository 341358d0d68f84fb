package machinepool

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/internal/engine"
)

func TestWhichNodesAreDrainedAndDeleted(t *testing.T) {
	now := time.Unix(1000, 0)
	node := func(name string, change ...func(*corev1.Node)) *corev1.Node {
		return testNode(name, "p://"+name, change...)
	}
	going := func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.Time) }
	marked := func(n *corev1.Node) { n.Annotations = map[string]string{CordonedAnnotation: "2026-01-01T00:00:00Z"} }
	facts := leavingFacts{
		Nodes: []*corev1.Node{node("stays", readyAt(now)), node("leaves", readyAt(now)), node("leaves-drained"), node("leaves-deleted", going),
			node("stays-drained"), node("stays-cordoned", marked), node("stays-deleted", marked, going),
			node("unlisted-drained"), node("unlisted-cordoned", marked)},
		Retired: []*corev1.Node{node("answers", readyAt(now)), node("drained", readyAt(now)), node("silent"), node("going", going)},
		Leaving: func(n *corev1.Node) bool { return strings.HasPrefix(n.Name, "leaves") },
		Drained: func(n *corev1.Node) bool { return strings.HasSuffix(n.Name, "drained") }, CanDrain: true,
		Listed: func(n *corev1.Node) bool { return !strings.HasPrefix(n.Name, "unlisted") },
	}
	plan := planLeaving(facts)
	if diff := cmp.Diff([][]string{{"answers", "leaves"}, {"drained", "silent"}},
		[][]string{names(plan.Drain), names(plan.Delete)}); diff != "" {
		t.Errorf("drained and deleted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"stays-drained", "stays-cordoned"}, names(plan.Stay)); diff != "" {
		t.Errorf("those that stay after all (-want +got):\n%s", diff)
	}
	facts.CanDrain = false
	plan = planLeaving(facts)
	if diff := cmp.Diff([][]string{nil, {"answers", "drained", "silent"}}, [][]string{names(plan.Drain), names(plan.Delete)}); diff != "" {
		t.Errorf("without a drainer (-want +got):\n%s", diff)
	}
	if len(plan.Release) > 0 {
		t.Errorf("another client may drain them, got %v", names(plan.Release))
	}
	facts.Excluded = true
	if diff := cmp.Diff([]string{"leaves"}, names(planLeaving(facts).Release)); diff != "" {
		t.Errorf("where drains are not wanted (-want +got):\n%s", diff)
	}
}

func TestANodeThatWasUncordonedIsToBeDrainedAgain(t *testing.T) {
	drained := func(n *corev1.Node) { n.Annotations = map[string]string{contract.DrainedAnnotation: string(n.UID)} }
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	for name, tc := range map[string]struct {
		node     *corev1.Node
		excluded bool
		want     bool
	}{
		"it says so":                            {node: testNode("a", "p://a", cordoned, drained), want: true},
		"this process knows":                    {node: testNode("known", "p://a", cordoned), want: true},
		"it says so, and is uncordoned":         {node: testNode("a", "p://a", drained)},
		"this process knows, and it is not now": {node: testNode("known", "p://a")},
		"it was never to be drained":            {node: testNode("a", "p://a", drained), excluded: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &api{})
			p.workload.Drainer = &steps{}
			p.mem().drained.Insert("known-uid")
			if tc.excluded {
				p.State.Annotations = map[string]string{contract.ExcludeDrain: ""}
			}
			require.Equal(t, tc.want, p.wasDrained(tc.node))
			plan := planLeaving(leavingFacts{
				Nodes: []*corev1.Node{tc.node}, Drained: p.wasDrained, CanDrain: p.canDrain(), Excluded: p.isExcluded(),
				Leaving: func(*corev1.Node) bool { return true },
			})
			require.Equal(t, !tc.want, len(plan.Drain) == 1)
			require.Empty(t, plan.Release)
		})
	}
}

func TestADrainBeforeADeletionHasAnEnd(t *testing.T) {
	began := time.Unix(1000, 0)
	base := drainAllFacts{
		Wanted: true, Known: true, Started: began, UnreadSince: began, UnreadLimit: time.Minute, Now: began.Add(2 * time.Minute),
	}
	for name, tc := range map[string]struct {
		change func(*drainAllFacts)
		want   drainAllAction
	}{
		"its start is recorded first":                  {func(f *drainAllFacts) { f.Started = time.Time{} }, drainBegin},
		"it goes on for as long as it takes":           {func(*drainAllFacts) {}, drainGo},
		"or as long as it may":                         {func(f *drainAllFacts) { f.Limit = time.Minute }, drainGiveUp},
		"a cluster that does not answer is waited for": {func(f *drainAllFacts) { f.Known, f.Now = false, began }, drainUnread},
		"but not for ever":                             {func(f *drainAllFacts) { f.Known = false }, drainGiveUp},
		"and not when only the drain takes long":       {func(f *drainAllFacts) { f.Known, f.UnreadSince = false, f.Now }, drainUnread},
		"where nothing is to be drained":               {func(f *drainAllFacts) { f.Wanted = false }, drainNone},
	} {
		t.Run(name, func(t *testing.T) {
			f := base
			tc.change(&f)
			if got := decideDrainAll(f); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}

func TestADrainDoesNotWaitForAKubeletThatIsGone(t *testing.T) {
	now := time.Unix(100000, 0)
	silent := drain.Situation{Node: testNode("silent", "p://1", readiness(corev1.ConditionUnknown, now.Add(-time.Hour))), Now: now}
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now.Add(-time.Hour)}}}
	options := Options{}
	policy := options.withDefaults(contract.MachinePoolKind{}).Policy.DrainPolicy
	if v := drain.Decide(gone, append(drain.DefaultRules(), policy.Rule(silent))); v.Action != drain.Ignore {
		t.Errorf("its pods never end: got %s", v.Action)
	}
}

func TestTheMemoryHoldsNoMoreThanThereIs(t *testing.T) {
	pool := newRecollection()
	set := func(uids ...types.UID) sets.Set[types.UID] {
		all := sets.Set[types.UID]{}
		for _, uid := range uids {
			all[uid] = struct{}{}
		}
		return all
	}
	pool.requested = engine.Deletions{"a": {}, "gone": {}}
	pool.drained, pool.confirmed = set("b", "gone"), set("c", "d", "gone")
	pool.keep(set("a", "b", "c", "d"), set("c"))
	got := []sets.Set[types.UID]{sets.KeySet(pool.requested), pool.drained, pool.confirmed}
	if diff := cmp.Diff([]sets.Set[types.UID]{set("a"), set("b"), set("c")}, got); diff != "" {
		t.Errorf("requested, drained, confirmed (-want +got):\n%s", diff)
	}
}

func TestALimitForUnreadNodesCountsFromWhenTheyWereReadLast(t *testing.T) {
	pool, began := newRecollection(), time.Unix(1000, 0)
	for i, known := range []bool{false, false, true, false, false} {
		pool.sees(known, began.Add(time.Duration(i)*time.Second))
	}
	if want := began.Add(3 * time.Second); !pool.nodesUnread.Equal(want) {
		t.Errorf("want %s, got %s", want, pool.nodesUnread)
	}
}

func TestANodeIsMarkedByTheKeysOfAllSystemsAndOfTheGroupOfItsPool(t *testing.T) {
	t.Parallel()
	for group, want := range map[string][2]bool{"cluster.x-k8s.io": {true, false}, "machines.example.com": {true, true}} {
		kind := contract.MachinePoolKind{GVK: schema.GroupVersionKind{Group: group, Version: "v1", Kind: "MachinePool"}}
		policy := Options{}.withDefaults(kind).Policy
		for i, key := range []string{"cluster.x-k8s.io/delete-machine", "machines.example.com/delete-machine"} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: ""}}}
			require.Equal(t, want[i], policy.Leaving(node), "%s on the Node of a pool of %s", key, group)
		}
	}
}
