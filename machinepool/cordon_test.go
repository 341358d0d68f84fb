package machinepool

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// cordonRecord is that of a Node which the pool has cordoned.
const cordonRecord = "2026-01-01T00:00:00Z" + cordonedByPool

func TestADrainBeginsWithACordonOfTheNodeAsItWasReadAndARecordOfItsBegin(t *testing.T) {
	const began, early, ahead = "2026-01-02T11:00:00Z", "2026-01-02T12:01:00Z", "2026-01-02T17:00:00Z"
	asRead := func(annotations, spec string) string {
		return `{"metadata":{"uid":"a-uid","resourceVersion":"7","annotations":{` + annotations + `}}` + spec + `}`
	}
	begins := func(record, spec string) string {
		return asRead(`"`+contract.DrainStartedAnnotation+`":"`+record+`","`+contract.DrainedAnnotation+`":null`, spec)
	}
	const now, cordon = "2026-01-02T12:00:00Z", `,"spec":{"unschedulable":true}`
	for name, tc := range map[string]struct {
		cordoned bool
		says     string
		want     string
	}{
		"it has yet to begin":                       {want: begins(now+" cordoned", cordon)},
		"it was cordoned by another":                {cordoned: true, want: begins(now, "")},
		"it has begun":                              {cordoned: true, says: began},
		"it has begun with a cordon":                {cordoned: true, says: began + " cordoned"},
		"it has begun, and the Node was uncordoned": {says: began, want: begins(began+" cordoned", cordon)},
		"the pool's own cordon was taken away":      {says: began + " cordoned"},
		"it begins in a minute":                     {cordoned: true, says: early},
		"it begins in hours":                        {cordoned: true, says: ahead, want: begins(now, "")},
		"it begins in hours, with a cordon":         {cordoned: true, says: ahead + " cordoned", want: begins(now+" cordoned", "")},
		"what the Node says is no time":             {cordoned: true, says: "yesterday cordoned", want: begins(now, "")},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{}
			p, drainer, _ := draining(t, a, 0)
			node := testNode("a", "p://a", func(n *corev1.Node) {
				n.ResourceVersion, n.Spec.Unschedulable = "7", tc.cordoned
				if tc.says != "" {
					n.Annotations = map[string]string{contract.DrainStartedAnnotation: tc.says}
				}
			})
			left, err := p.drain(t.Context(), []*corev1.Node{node})
			require.NoError(t, err)
			require.Equal(t, 1, left)
			if tc.want == "" {
				require.Empty(t, a.patched)
				require.Equal(t, []string{"a"}, drainer.asked)
				return
			}
			require.Len(t, a.patched, 1)
			require.JSONEq(t, tc.want, a.patched[0])
			require.Empty(t, drainer.asked, "no pod is evicted before the Node says so")
		})
	}
}

func TestADrainWhoseBeginCannotBeRecordedDoesNotBegin(t *testing.T) {
	p, drainer, _ := draining(t, &api{refuses: errors.New("no")}, 0)
	left, err := p.drain(t.Context(), []*corev1.Node{testNode("a", "")})
	require.Error(t, err)
	require.Equal(t, 1, left)
	require.Empty(t, drainer.asked)
}

// A cache showed a drain, from which the pool had taken the Node back since: the provider would have deleted an instance with pods.
func TestMarksAreWrittenOnANodeAsItWasRead(t *testing.T) {
	a := &api{}
	p, _ := acting(t, a)
	node := func(change ...func(*corev1.Node)) *corev1.Node {
		return testNode("a", "", append(change, func(n *corev1.Node) { n.ResourceVersion, n.Spec.Unschedulable = "7", true })...)
	}
	ours := node(func(n *corev1.Node) { n.Annotations = map[string]string{contract.DrainStartedAnnotation: cordonRecord} })
	require.NoError(t, p.markDrained(t.Context(), node()))
	require.NoError(t, p.removeMarks(t.Context(), ours))
	require.NoError(t, p.removeMarks(t.Context(), node()))
	removes := `{"metadata":{"uid":"a-uid","resourceVersion":"7","annotations":{"` +
		contract.DrainStartedAnnotation + `":null,"` + contract.DrainedAnnotation + `":null}}`
	for i, want := range []string{
		`{"metadata":{"uid":"a-uid","resourceVersion":"7","annotations":{"` + contract.DrainedAnnotation + `":"a-uid"}}}`,
		removes + `,"spec":{"unschedulable":null}}`,
		removes + `}`, // another has cordoned it
	} {
		require.JSONEq(t, want, a.patched[i])
	}
}

// A program uncordons a in each pass, for ever.
func TestANodeThatIsUncordonedAgainAndAgainHoldsUpNoOther(t *testing.T) {
	a := &api{}
	p, drainer, _ := draining(t, a, 0)
	drainer.result = runner.Result{Counts: drain.Counts{Total: 1, Terminating: 1}}
	uncordoned := begunNode("a", func(n *corev1.Node) {
		n.Spec.Unschedulable, n.Annotations[contract.DrainedAnnotation] = false, "a-uid"
		n.Annotations[contract.DrainStartedAnnotation] += cordonedByPool
	})
	require.False(t, p.wasDrained(uncordoned), "pods may be on it")
	for range 3 {
		_, err := p.drain(t.Context(), []*corev1.Node{uncordoned, begunNode("b")})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"b", "b", "b"}, drainer.asked)
	require.JSONEq(t, `{"metadata":{"uid":"a-uid","resourceVersion":"","annotations":{"`+contract.DrainedAnnotation+`":null,"`+
		contract.DrainStartedAnnotation+`":"2026-01-02T11:59:00Z cordoned"}},"spec":{"unschedulable":true}}`, a.patched[0],
		"the provider is not to delete its instance, and the limit counts on")
	delete(uncordoned.Annotations, contract.DrainedAnnotation)
	drainer.result, drainer.asked = runner.Result{Done: true, Event: &drain.Blocker{Message: "somebody insists"}}, nil
	left, err := p.drain(t.Context(), []*corev1.Node{uncordoned})
	require.NoError(t, err)
	require.Zero(t, left, "no Pod is left")
	require.Equal(t, []string{"a"}, drainer.asked)
}

// synced are Nodes that are known.
type synced struct{ noderef.Lookup }

func (synced) HasSynced() bool { return true }

// deleteIn runs the steps of a deletion.
func deleteIn(t *testing.T, p *Scope) error {
	t.Helper()
	_, err := engine.RunSteps(t.Context(), Steps(), p, nil)
	return err
}

func TestDeletionCondition(t *testing.T) {
	p, _ := acting(t, &api{})
	p.env.kinds.NewMachine = nil
	p.env.frame.Ports.Cache = &byKey{}
	own := cluster.Workload{Nodes: synced{noderef.NewIndex(noderef.Rules{})}, Client: &api{}}
	p.env.workloads = cluster.NewTracker(cluster.TrackerConfig{Kind: "MachinePool", Own: own})
	p.State.Finalizers = []string{"example.com/others", p.env.frame.Finalizer}
	require.NoError(t, deleteIn(t, p))
	said, _ := engine.Find(p.Asserted, contract.ConditionDeleting)
	require.Equal(t, engine.Condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonDeletionCompleted,
		"Deletion completed"),
		said)
	require.Equal(t, contract.SetTo([]string{"example.com/others"}), p.Update.Finalizers)

	p, _ = acting(t, &api{})
	p.env.kinds.NewMachine = func(*contract.MachinePoolState, contract.MachineSeed) (contract.Object, error) {
		return nil, errors.New("unused")
	}
	cache, ok := p.env.frame.Ports.Cache.(*byKey)
	require.True(t, ok)
	cache.fails = errors.New("no")
	require.Error(t, deleteIn(t, p))
	said, _ = engine.Find(p.Asserted, contract.ConditionDeleting)
	require.Equal(t, engine.Condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonDeleting, "Deletion started"), said)
	require.True(t, p.Update.Finalizers.Keeps(), "Machines that are unread are not absent")
}
