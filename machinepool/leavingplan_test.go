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
	"github.com/machinist-dev/machinist/internal/external"
)

func TestWhichNodesAreDrainedAndDeleted(t *testing.T) {
	now := time.Unix(1000, 0)
	node := func(name string, change ...func(*corev1.Node)) *corev1.Node {
		return testNode(name, "p://"+name, change...)
	}
	going := func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.Time) }
	marked := func(n *corev1.Node) { n.Annotations = map[string]string{contract.DrainStartedAnnotation: cordonRecord} }
	drained := func(n *corev1.Node) { n.Annotations = map[string]string{contract.DrainedAnnotation: string(n.UID)} }
	all := append(instancesIn(here, node("stays", readyAt(now)), node("leaves", readyAt(now)), node("leaves-drained"),
		node("leaves-deleted", going), node("stays-drained", drained), node("stays-cordoned", marked), node("stays-deleted", marked, going)),
		instancesIn(retired, node("answers", readyAt(now)), node("drained", readyAt(now)), node("silent"), node("going", going))...)
	all = append(all, instancesIn(kept, node("leaves-kept"))...)
	all = append(all, instance{State: missing, ID: "p://missing"}, instance{State: missed})
	for name, is := range map[string]instanceState{"stays-of-a-machine": here, "leaves-of-a-machine": here, "left-for-a-machine": retired} {
		all = append(all, instance{State: is, Node: node(name, readyAt(now)), OfMachine: true})
	}
	facts := leavingFacts{
		Leaving: func(n *corev1.Node) bool { return strings.HasPrefix(n.Name, "leaves") },
		Drained: func(n *corev1.Node) bool { return strings.HasSuffix(n.Name, "drained") }, CanDrain: true, Listed: true,
	}
	want := map[act][]string{
		drains: {"leaves", "answers"}, deletes: {"drained", "silent"}, servesAgain: {"stays-drained", "stays-cordoned"}, deleting: {"going"},
		isMachines: {"leaves-of-a-machine"},
	}
	decide := func(when string) {
		t.Helper()
		got := map[act][]string{}
		for _, one := range all {
			if do := facts.decide(one); do != noAction {
				got[do] = append(got[do], one.Node.Name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	decide("with a drainer")
	facts.Listed = false
	delete(want, servesAgain)
	decide("which instances stay is not known")
	facts.CanDrain = false
	delete(want, drains)
	delete(want, isMachines)
	want[deletes] = []string{"answers", "drained", "silent"}
	decide("without a drainer another client may drain them")
	facts.Excluded = true
	want[marksDrained], want[isMachines] = []string{"leaves"}, []string{"leaves-of-a-machine"}
	decide("drains are not wanted")
}

func TestAPoolThatLivesNamesWhatTheNodesThatLeaveWaitFor(t *testing.T) {
	p, drainer, _ := draining(t, &api{listing: infraIs("infra-uid", "7")}, 0)
	p.State.Deleting, p.complete = time.Time{}, true
	p.env.options.Policy.Leaving = func(*corev1.Node) bool { return true }
	drainer.result.Message = "* Pod default/web: its budget allows no eviction"
	require.NoError(t, p.removeNodes(t.Context()))
	want := problems{Reason: contract.ReasonNotReady, Lines: []string{
		"* With a Node that is being drained: a; waiting for Node a:\n  * Pod default/web: its budget allows no eviction",
	}}
	require.Equal(t, want, p.problems)
	require.Equal(t, strings.Join(want.Lines, "\n"), (&statusFacts{Pool: &p.State, Known: true, Problems: p.problems}).machinesReady().Message)

	going := func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: actingNow} }
	claimed := append(instancesIn(here, testNode("e", "p://e")), instancesIn(retired, testNode("f", "p://f"))...)
	claimed[0].OfMachine, claimed[1].OfMachine = true, true
	p.instances, p.problems = append(instancesIn(retired, testNode("d", "p://d", going)), claimed...), problems{}
	require.NoError(t, p.removeNodes(t.Context()))
	require.Equal(t, problems{Reason: contract.ReasonNodeClaimed, Lines: []string{
		"* With a Node that is being deleted: d",
		"* With a Node that is to leave and that a Machine claims: e; let each instance be in the pool or have a Machine",
	}}, p.problems)
}

func TestANodeThatWasUncordonedIsToBeDrainedAgain(t *testing.T) {
	drained := func(n *corev1.Node) { n.Annotations = map[string]string{contract.DrainedAnnotation: string(n.UID)} }
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	for name, tc := range map[string]struct {
		node     *corev1.Node
		excluded bool
		want     bool
	}{
		"it says so":                    {node: testNode("a", "p://a", cordoned, drained), want: true},
		"it does not say so":            {node: testNode("a", "p://a", cordoned)},
		"it says so, and is uncordoned": {node: testNode("a", "p://a", drained)},
		"it was never to be drained":    {node: testNode("a", "p://a", drained), excluded: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &api{})
			p.workload.Drainer = &steps{}
			if tc.excluded {
				p.State.Annotations = map[string]string{contract.ExcludeDrain: ""}
			}
			require.Equal(t, tc.want, p.wasDrained(tc.node))
			do := leavingFacts{
				Drained: p.wasDrained, CanDrain: p.canDrain(), Excluded: p.excludes(contract.ExcludeDrain),
				Leaving: func(*corev1.Node) bool { return true },
			}.decide(instance{State: here, Node: tc.node})
			require.Equal(t, map[bool]act{true: noAction, false: drains}[tc.want], do)
		})
	}
}

func TestADrainBeforeADeletionHasAnEnd(t *testing.T) {
	since := func(ago time.Duration) string { return actingNow.Add(-ago).Format(time.RFC3339) }
	for name, tc := range map[string]struct {
		limit  int
		began  string
		unread time.Duration // for so long, zero: known
		change func(*Scope)
		done   bool
		asked  bool
		says   string
	}{
		"its start is recorded first":                  {says: "Drain not completed yet"},
		"it goes on for as long as it takes":           {began: since(time.Hour), asked: true, says: "1 Nodes are left"},
		"or as long as it may":                         {began: since(2 * time.Minute), limit: 60, done: true},
		"a cluster that does not answer is waited for": {began: since(time.Hour), unread: time.Minute, says: "cannot be read"},
		"but not for ever":                             {began: since(time.Hour), unread: defaultUnreadLimit, done: true},
		"where nothing is to be drained": {began: since(time.Minute), done: true,
			change: func(p *Scope) { p.infrastructure = refTo(external.Absent) }},
	} {
		t.Run(name, func(t *testing.T) {
			p, drainer, _ := draining(t, &api{}, tc.limit)
			p.deletion = contract.Deletion{}
			if began, err := time.Parse(time.RFC3339, tc.began); err == nil {
				p.deletion.Begin(contract.StageDrain, began)
			}
			if tc.unread > 0 {
				p.unreadNodes(actingNow.Add(-tc.unread))
			}
			if tc.change != nil {
				tc.change(p)
			}
			done, err := p.drainAll(t.Context())
			require.NoError(t, err)
			require.Equal(t, tc.done, done)
			require.Equal(t, tc.asked, len(drainer.asked) > 0)
			said, _ := engine.Find(p.Asserted, contract.ConditionDeleting)
			require.Contains(t, said.Message, tc.says)
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
	p, _ := acting(t, &api{})
	requests := func() sets.Set[types.UID] {
		p.forgetRequests()
		return sets.KeySet(p.mem().requested)
	}
	p.mem().requested = engine.Deletions{"a": {}, "infra-uid": {}, "gone": {}}
	require.Len(t, requests(), 3, "a pool in deletion ends soon")
	p.State.Deleting, p.machines = time.Time{}, nil
	require.Len(t, requests(), 3, "its Machines are not known")
	p.machines = &machines{own: []machine{machineOf(&contract.MachineState{Metadata: contract.Metadata{UID: "a"}}, nil)}}
	require.Equal(t, sets.New[types.UID]("a"), requests(), "a pool that lives has requested no deletion of what it refers to")
}

func TestALimitForUnreadNodesCountsFromWhenTheyWereReadLast(t *testing.T) {
	pool, began := &recollection{}, time.Unix(1000, 0)
	for i, known := range []bool{false, false, true, false, false} {
		pool.countUnread(!known, began.Add(time.Duration(i)*time.Second))
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
