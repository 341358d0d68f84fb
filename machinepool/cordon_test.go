package machinepool

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef"
)

func TestADrainBeginsWhenItsTurnComesAndItsNodeSaysSoWhereThereIsALimit(t *testing.T) {
	since := actingNow.Add(-time.Minute)
	said := func(value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations = map[string]string{contract.DrainStartedAnnotation: value} }
	}
	for name, tc := range map[string]struct {
		node    *corev1.Node
		limit   time.Duration
		refuses error
		want    time.Time
		patched int
	}{
		"it says so":           {node: testNode("a", "", said("2026-01-02T11:00:00Z")), limit: time.Hour, want: actingNow.Add(-time.Hour)},
		"it says so, no limit": {node: testNode("a", "", said("2026-01-02T11:00:00Z")), want: actingNow.Add(-time.Hour)},
		"what it says is none": {node: testNode("a", "", said("yesterday")), limit: time.Hour, want: since, patched: 1},
		"it has yet to say so": {node: testNode("a", ""), limit: time.Hour, want: since, patched: 1},
		"without a limit":      {node: testNode("a", ""), want: since},
		"it says so a minute early": {node: testNode("a", "", said("2026-01-02T12:01:00Z")), limit: time.Hour,
			want: actingNow.Add(time.Minute)},
		"it is hours ahead":           {node: testNode("a", "", said("2026-01-02T17:00:00Z")), limit: time.Hour, want: actingNow, patched: 1},
		"it is hours ahead, no limit": {node: testNode("a", "", said("2026-01-02T17:00:00Z")), want: actingNow, patched: 1},
		"it could not be said":        {node: testNode("a", ""), limit: time.Hour, refuses: errors.New("no"), want: since, patched: 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{refuses: tc.refuses}
			p, _ := acting(t, a)
			got, err := p.begun(t.Context(), tc.node, since, tc.limit)
			require.Equal(t, tc.refuses != nil, err != nil, err)
			require.True(t, got.Equal(tc.want), got)
			require.Len(t, a.patched, tc.patched)
			for _, body := range a.patched {
				require.Contains(t, body, `{"op":"test","path":"/metadata/uid","value":"a-uid"}`)
				require.Contains(t, body, tc.want.Format(time.RFC3339), "the limit counts from there in every process")
			}
		})
	}
}

func TestAllNodesThatLeaveAreCordonedByUIDAndTheDrainsOfTheFirstBegin(t *testing.T) {
	a := &api{}
	p, _ := acting(t, a)
	p.env.options.Parallel = 1
	cordoned := testNode("b", "", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	require.NoError(t, p.cordon(t.Context(), []*corev1.Node{testNode("a", ""), cordoned, testNode("c", "")}, 1))
	require.Len(t, a.patched, 2, "b is cordoned already")
	for _, body := range a.patched {
		first := strings.Contains(body, `"value":"a-uid"`)
		require.NotEqual(t, first, strings.Contains(body, `"value":"c-uid"`))
		require.Equal(t, first, strings.Contains(body, annotationPath(contract.DrainStartedAnnotation)), body)
		require.Contains(t, body, annotationPath(CordonedAnnotation))
		require.Contains(t, body, `{"op":"test","path":"/spec/unschedulable","value":null}`, "it must not be cordoned meanwhile")
	}
}

// A cache showed a drain, from which the pool had taken the Node back since: the provider would have deleted an instance with pods.
func TestANodeIsReportedAsDrainedOnlyWithTheMarksOfThatDrain(t *testing.T) {
	a := &api{}
	p, _ := acting(t, a)
	node := testNode("a", "", func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Annotations = map[string]string{CordonedAnnotation: "then", contract.DrainStartedAnnotation: "later"}
	})
	require.NoError(t, p.sayDrained(t.Context(), node))
	require.NoError(t, p.sayDrained(t.Context(), testNode("b", "")))
	at := func(key string) string { return `"path":"` + annotationPath(key) + `","value":` }
	require.Equal(t, []string{
		`[{"op":"test","path":"/metadata/uid","value":"a-uid"},{"op":"test","path":"/spec/unschedulable","value":true},{"op":"test",` +
			at(CordonedAnnotation) + `"then"},{"op":"test",` + at(contract.DrainStartedAnnotation) + `"later"},{"op":"add",` +
			at(contract.DrainedAnnotation) + `"a-uid"}]`,
		`[{"op":"test","path":"/metadata/uid","value":"b-uid"},{"op":"test","path":"/metadata/annotations","value":null},{"op":"add",` +
			`"path":"/metadata/annotations","value":{}},{"op":"add",` + at(contract.DrainedAnnotation) + `"b-uid"}]`,
	}, a.patched)
}

func TestANodeThatIsStuckPassesItsTurnOnInTime(t *testing.T) {
	p, drainer, _ := draining(t, &api{}, 0)
	p.env.limits.draining = 1
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	nodes := []*corev1.Node{testNode("a", "", cordoned), testNode("b", "", cordoned)}
	drainer.result = runner.Result{Counts: drain.Counts{Total: 1, Blocked: 1}}
	require.NoError(t, p.drain(t.Context(), nodes, time.Time{}, nil))
	require.Equal(t, []string{"a"}, drainer.asked)
	require.Equal(t, p.env.limits.stuck, p.RequeueAfter(), "b waits, and no event tells that a is stuck")
	p.Now = p.Now.Add(p.RequeueAfter())
	require.NoError(t, p.drain(t.Context(), nodes, time.Time{}, nil))
	require.Equal(t, []string{"a", "b"}, drainer.asked)
	require.Equal(t, []string{"a"}, drainer.released)
	require.Equal(t, p.Now, p.mem().turns["a-uid"].Lost)
	require.NoError(t, p.drain(t.Context(), nil, time.Time{}, nil))
	require.Empty(t, p.mem().turns, "what is drained no more is forgotten")
}

// A program uncordons a in each pass, for ever.
func TestANodeThatIsUncordonedAgainAndAgainHoldsUpNoOther(t *testing.T) {
	a := &api{}
	p, drainer, _ := draining(t, a, 0)
	p.env.limits.draining = 1
	drainer.result = runner.Result{Counts: drain.Counts{Total: 1, Terminating: 1}}
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	drained := func(n *corev1.Node) {
		n.Annotations = map[string]string{
			CordonedAnnotation: "then", contract.DrainStartedAnnotation: "later", contract.DrainedAnnotation: "a-uid"}
	}
	p.mem().drained.Insert("a-uid")
	for range 3 {
		require.NoError(t, p.drain(t.Context(), []*corev1.Node{testNode("a", "", drained), testNode("b", "", cordoned)}, time.Time{}, nil))
		require.False(t, p.wasDrained(testNode("a", "", cordoned)), "pods may be on it")
	}
	require.Equal(t, []string{"b", "b", "b"}, drainer.asked)
	at := func(key string) string { return `"path":"` + annotationPath(key) + `"` }
	require.Contains(t, a.patched[0], `{"op":"remove",`+at(contract.DrainedAnnotation), "the provider is not to delete its instance")
	require.Contains(t, a.patched[0], `{"op":"remove",`+at(contract.DrainStartedAnnotation), "its limit counts anew")
	require.NotContains(t, a.patched[0], `{"op":"add",`+at(contract.DrainStartedAnnotation), "it waits for its turn")
	later := p.Now.Add(time.Hour)
	p.Now = later
	require.NoError(t, p.drain(t.Context(), []*corev1.Node{testNode("a", "", cordoned)}, time.Time{}, nil))
	require.Equal(t, "a", drainer.asked[len(drainer.asked)-1])
	require.Equal(t, later, p.mem().turns["a-uid"].Began, "its limit counts from its first turn")
}

// synced are Nodes that are known.
type synced struct{ noderef.Lookup }

func (synced) HasSynced() bool { return true }

// deleteIn runs the steps of a deletion.
func deleteIn(t *testing.T, p *Scope) error {
	t.Helper()
	_, err := engine.RunSteps(t.Context(), Steps(), p, true, runStep)
	return err
}

func TestADeletionSaysThatItBeganAndThatItIsComplete(t *testing.T) {
	p, _ := acting(t, &api{})
	p.env.kinds.NewMachine = nil
	p.env.frame.Ports.Cache, p.env.ports.Workload = &byKey{}, Workload{Nodes: synced{noderef.NewIndex(noderef.Rules{})}, Client: &api{}}
	p.env.workloads = p.env.newTracker()
	p.State.Finalizers = []string{"example.com/others", p.env.frame.Options.Finalizer}
	require.NoError(t, deleteIn(t, p))
	said, _ := engine.Find(p.Asserted, contract.ConditionDeleting)
	require.Equal(t, engine.Condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonDeletionCompleted,
		"Deletion completed"),
		said)
	require.Equal(t, contract.SetTo([]string{"example.com/others"}), p.Update.Finalizers)
	require.True(t, p.isDone() && p.urgent)

	p, _ = acting(t, &api{})
	p.env.kinds.NewMachine = func(Seed) (contract.Object, error) { return nil, errors.New("unused") }
	p.env.frame.Ports.Cache = &byKey{fails: errors.New("no")}
	require.Error(t, deleteIn(t, p))
	said, _ = engine.Find(p.Asserted, contract.ConditionDeleting)
	require.Equal(t, engine.Condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonDeleting, "Deletion started"), said)
	require.True(t, p.Update.Finalizers.Keeps(), "Machines that are unread are not absent")
	require.False(t, p.isDone())
}

func TestAnInstanceIsListedInEachFormThatMatchingTakesForEqual(t *testing.T) {
	p, _ := acting(t, &api{})
	p.listed = []string{"P://A", "", "p://b"}
	listed := func() [3]bool {
		is := p.isListed()
		return [3]bool{is(testNode("a", "p://a")), is(testNode("b", "p://b")), is(testNode("c", "p://c"))}
	}
	require.Equal(t, [3]bool{false, true, false}, listed())
	p.env.options.Matching.Canonical = strings.ToLower
	require.Equal(t, [3]bool{true, true, false}, listed())
}
