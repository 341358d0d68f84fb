package machinepool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// steps is a Drainer that answers as it is told, and notes what it is asked.
type steps struct {
	result          runner.Result
	asked, released []string
}

func (s *steps) Step(_ context.Context, request runner.Request) (runner.Result, error) {
	s.asked = append(s.asked, request.Node.Name)
	return s.result, nil
}

func (s *steps) Release(node string) { s.released = append(s.released, node) }

func TestWhichPoolsAreDrainedBeforeTheirInstancesGo(t *testing.T) {
	foreign, going := refTo(external.Present), refTo(external.Present)
	foreign.Foreign = true
	going.Object.SetDeletionTimestamp(&metav1.Time{Time: actingNow})
	for name, tc := range map[string]struct {
		change func(*Scope)
		want   bool
	}{
		"its instances are there":                {func(*Scope) {}, true},
		"its instances are unread":               {func(p *Scope) { p.infrastructure = refTo(external.Unread) }, true},
		"its Nodes are unread":                   {func(p *Scope) { p.nodesKnown, p.workload.Drainer, p.missed = false, nil, "unread" }, true},
		"its instances are gone":                 {func(p *Scope) { p.infrastructure = refTo(external.Absent) }, false},
		"its instances are on their way":         {func(p *Scope) { p.infrastructure = going }, false},
		"their deletion was asked for":           {func(p *Scope) { p.mem().requested.Add("infra-uid", "7", p.Now) }, false},
		"its instances are another's":            {func(p *Scope) { p.infrastructure = foreign }, false},
		"it has none":                            {func(p *Scope) { p.instances = nil }, false},
		"some may have had no Machine":           {func(p *Scope) { p.nodesKnown, p.instances, p.missed = false, nil, "unread" }, true},
		"it is not known whether Nodes are gone": {func(p *Scope) { p.instances, p.missed = nil, "missed" }, true},
		"there is no drainer":                    {func(p *Scope) { p.workload.Drainer = nil }, false},
		"the pool says no":                       {func(p *Scope) { p.State.Annotations = map[string]string{contract.ExcludeDrain: ""} }, false},
		"its cluster is gone":                    {func(p *Scope) { p.Cluster.Presence = external.Absent }, false},
		"its cluster goes too":                   {func(p *Scope) { p.Cluster.State.Deleting = actingNow }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &api{})
			p.workload.Drainer, p.infrastructure = &steps{}, refTo(external.Present)
			p.instances = instancesIn(here, testNode("a", ""))
			tc.change(p)
			require.Equal(t, tc.want, p.wantsDrain())
		})
	}
}

// unreadNodes has the Nodes of the pool unread since some time.
func (p *Scope) unreadNodes(since time.Time) {
	p.nodesKnown, p.instances, p.missed, p.mem().nodesUnread = false, nil, "The Nodes cannot be read: not connected", since
}

// draining is a pass over a pool whose drain began a minute ago.
func draining(t *testing.T, a *api, limit int) (*Scope, *steps, *events.FakeRecorder) {
	t.Helper()
	p, told := acting(t, a)
	drainer := &steps{}
	p.workload.Drainer, p.infrastructure = drainer, refTo(external.Present)
	p.deletion.Begin(contract.StageDrain, actingNow.Add(-time.Minute))
	p.State.Template.NodeDrainTimeout = contract.Some(time.Duration(limit) * time.Second)
	drained := func(n *corev1.Node) { n.Annotations[contract.DrainedAnnotation] = string(n.UID) }
	going := func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: actingNow} }
	p.instances = instancesIn(here, begunNode("a"), begunNode("b", drained), testNode("c", "p://c", going))
	return p, drainer, told
}

// begunNode is a Node whose drain began a minute ago.
func begunNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	begun := func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Annotations = map[string]string{contract.DrainStartedAnnotation: actingNow.Add(-time.Minute).Format(time.RFC3339)}
	}
	return testNode(name, "p://"+name, append([]func(*corev1.Node){begun}, change...)...)
}

func TestADrainBeforeADeletionIsLookedAtAgainWhenItsLimitIsReached(t *testing.T) {
	message := func(p *Scope) string {
		c, _ := engine.Find(p.Asserted, contract.ConditionDeleting)
		require.Equal(t, contract.ReasonDrainingNode, c.Reason)
		return c.Message
	}
	p, drainer, _ := draining(t, &api{}, 90)
	done, err := p.drainAll(t.Context())
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, []string{"a"}, drainer.asked, "b was drained, and c goes anyway")
	require.Equal(t, "Drain not completed yet (started at 2026-01-02T11:59:00Z): 1 Nodes are left", message(p))
	require.Equal(t, 30*time.Second, p.RequeueAfter())

	p, drainer, _ = draining(t, &api{}, 90)
	p.instances = append(p.instances, instancesIn(here, begunNode("d"))...)
	drainer.result.Message = "* Pod default/web: its budget allows no eviction"
	_, err = p.drainAll(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Drain not completed yet (started at 2026-01-02T11:59:00Z): 2 Nodes are left; "+
		"waiting for Node a:\n  * Pod default/web: its budget allows no eviction", message(p), "the first Node says why")

	p, drainer, _ = draining(t, &api{}, 90)
	p.unreadNodes(actingNow)
	done, err = p.drainAll(t.Context())
	require.NoError(t, err)
	require.False(t, done)
	require.Empty(t, drainer.asked)
	require.Equal(t, "The Nodes cannot be read: not connected", message(p))
	require.Equal(t, 30*time.Second, p.RequeueAfter(), "its own limit comes first")

	p, _, _ = draining(t, &api{}, 0)
	p.unreadNodes(actingNow)
	_, err = p.drainAll(t.Context())
	require.NoError(t, err)
	require.Equal(t, defaultUnreadLimit, p.RequeueAfter())

	p, drainer, told := draining(t, &api{}, 60)
	done, err = p.drainAll(t.Context())
	require.NoError(t, err)
	require.True(t, done)
	require.Empty(t, drainer.asked)
	require.Equal(t, []string{"Warning FailedDrainNode The Nodes were not drained in time: the deletion goes on without"}, notesOf(told))

	p, drainer, _ = draining(t, &api{}, 90)
	p.deletion = contract.Deletion{}
	done, err = p.drainAll(t.Context())
	require.NoError(t, err)
	require.False(t, done)
	require.Empty(t, drainer.asked, "the start is recorded first")
	require.Equal(t, "Drain not completed yet", message(p))
	require.Equal(t, actingNow, p.deletion.Stages[contract.StageDrain].Start)
	require.Contains(t, p.Update.Annotations, contract.DeletionAnnotation)
}

func TestDrainLimitOfANode(t *testing.T) {
	a := &api{refuses: apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a", errors.New("it is another version"))}
	p, drainer, told := draining(t, a, 60)
	node := p.instances[0].Node
	_, err := p.advance(t.Context(), node)
	require.ErrorIs(t, err, cluster.ErrNodeChanged)
	require.Empty(t, notesOf(told), "the Node does not say so yet")
	a.refuses = nil
	over, err := p.advance(t.Context(), node)
	require.NoError(t, err)
	require.True(t, over)
	require.Empty(t, drainer.asked)
	require.Equal(t, []string{"Warning FailedDrainNode Node a was not drained within 1m0s: going on without"}, notesOf(told))

	node.Annotations[contract.DrainStartedAnnotation] = actingNow.Format(time.RFC3339)
	over, err = p.advance(t.Context(), node)
	require.NoError(t, err)
	require.False(t, over)
	require.Equal(t, time.Minute, p.RequeueAfter())
	require.Empty(t, notesOf(told))

	drainer.result = runner.Result{Done: true}
	over, err = p.advance(t.Context(), node)
	require.NoError(t, err)
	require.True(t, over)
	require.Equal(t, []string{"Normal SuccessfulDrainNode success draining Node a"}, notesOf(told))
}

func TestNodeDeletionLimit(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a", errors.New("the UID is another"))
	const gaveUp = "Warning FailedDeleteNode Nodes of the pool were not deleted within 10s: the deletion goes on without"
	for name, tc := range map[string]struct {
		began   time.Duration
		refuses error
		going   bool
		unread  time.Duration
		done    bool
		deleted int
		says    string
		told    []string
		again   time.Duration
	}{
		"it begins": {says: "Waiting for Nodes to be deleted: a", deleted: 1, told: []string{"Normal SuccessfulDeleteNode a"},
			again: 10 * time.Second},
		"on its way, and within": {began: 4 * time.Second, going: true, says: "Waiting for Nodes to be deleted: a", again: 6 * time.Second},
		"on its way, and it is time": {began: 10 * time.Second, going: true, done: true, told: []string{gaveUp},
			says: "Waiting for Nodes to be deleted: a"},
		"not asked for before": {began: time.Hour, done: true, deleted: 1, told: []string{"Normal SuccessfulDeleteNode a", gaveUp},
			says: "Waiting for Nodes to be deleted: a"},
		"refused, and within": {began: 4 * time.Second, refuses: errors.New("no"), deleted: 1, says: "delete Node a: no",
			again: engine.ConflictRetry},
		"refused, and it is time": {began: time.Hour, refuses: errors.New("no"), deleted: 1, done: true, says: "delete Node a: no",
			told: []string{gaveUp}, again: time.Second},
		"in conflict, and within": {began: 4 * time.Second, refuses: conflict, deleted: 1, says: "Waiting for Nodes to be deleted: a",
			again: engine.ConflictRetry},
		"in conflict, and it is time": {began: time.Hour, refuses: conflict, deleted: 1, done: true, says: "Waiting for Nodes to be deleted: a",
			told: []string{gaveUp}, again: time.Second},
		"unread, and within": {began: time.Hour, unread: 4 * time.Second, says: "The Nodes cannot be read: not connected",
			again: 6 * time.Second},
		"unread since, and not begun": {unread: time.Hour, says: "The Nodes cannot be read: not connected", again: 10 * time.Second},
		"unread, and it is time": {began: time.Hour, unread: time.Hour, done: true, says: "The Nodes cannot be read: not connected",
			told: []string{gaveUp}},
		"unread a moment ago, and old": {began: 4 * time.Second, unread: 5 * time.Second, says: "The Nodes cannot be read: not connected",
			again: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{refuses: tc.refuses}
			p, told := acting(t, a)
			node := testNode("a", "p://a")
			p.instances, p.State.Nodes = instancesIn(here, node), []contract.NodeRef{{Name: "a", UID: node.UID}}
			if tc.began > 0 {
				p.deletion.Begin(contract.StageDeleteNode, actingNow.Add(-tc.began))
			}
			if tc.going {
				node.DeletionTimestamp = &metav1.Time{Time: actingNow}
			}
			if tc.unread > 0 {
				p.unreadNodes(actingNow.Add(-tc.unread))
			}
			done, err := p.deleteAllNodes(t.Context())
			require.NoError(t, err)
			c, _ := engine.Find(p.Asserted, contract.ConditionDeleting)
			got := fmt.Sprint(done, len(a.deleted), c.Message, notesOf(told), p.RequeueAfter())
			if diff := cmp.Diff(fmt.Sprint(tc.done, tc.deleted, tc.says, tc.told, tc.again), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			require.Equal(t, tc.began == 0, p.Update.Annotations != nil, "the begin is recorded once")
			for _, said := range a.deleted {
				require.Equal(t, "a uid=a-uid", said)
			}
		})
	}
}

func TestUnreadNodesAreNoneOnlyWhenThereWereNoInstances(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Scope)
		want   bool
	}{
		"there were none":    {func(*Scope) {}, false},
		"there were some":    {func(p *Scope) { p.State.ProviderIDs = []string{"p://a"} }, true},
		"Nodes are recorded": {func(p *Scope) { p.State.Nodes = []contract.NodeRef{{Name: "a"}} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &api{})
			unreached := func(types.NamespacedName) (cluster.Workload, error) {
				return cluster.Workload{}, cluster.ErrNotConnected
			}
			p.env.workloads = cluster.NewTracker(cluster.TrackerConfig{Kind: "MachinePool", NodesOf: unreached})
			p.State.ClusterName = "c"
			tc.change(p)
			require.NoError(t, p.observeNodes(t.Context()))
			require.Equal(t, tc.want, p.hasNodes())
			require.Equal(t, tc.want, !p.mem().nodesUnread.IsZero())
		})
	}
}

func TestDrainsThatAreOverOrNotWantedAnyMoreAreLetGo(t *testing.T) {
	a, b := begunNode("a"), begunNode("b")
	drain := func(t *testing.T, p *Scope, left int, nodes ...*corev1.Node) {
		t.Helper()
		got, err := p.drain(t.Context(), nodes)
		require.NoError(t, err)
		require.Equal(t, left, got)
	}
	began := func(t *testing.T, server *api) (*Scope, *steps) {
		t.Helper()
		p, drainer, _ := draining(t, server, 90)
		drain(t, p, 2, a, b)
		require.Equal(t, []string{"a", "b"}, drainer.asked)
		require.Empty(t, drainer.released)
		return p, drainer
	}
	for name, tc := range map[string]struct {
		then func(*testing.T, *Scope, *steps, *api)
		want []string
	}{
		"one stays after all": {func(t *testing.T, p *Scope, _ *steps, _ *api) {
			t.Helper()
			drain(t, p, 1, b)
		}, []string{"a"}},
		"both are drained": {func(t *testing.T, p *Scope, drainer *steps, server *api) {
			t.Helper()
			drainer.result = runner.Result{Done: true}
			drain(t, p, 0, a, b)
			require.Len(t, server.patched, 2)
		}, []string{"a", "b"}},
		"that one was drained could not be said": {func(t *testing.T, p *Scope, drainer *steps, server *api) {
			t.Helper()
			drainer.result = runner.Result{Done: true}
			server.refuses = apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a", errors.New("it is another version"))
			drain(t, p, 2, a, b)
			require.Equal(t, engine.ConflictRetry, p.RequeueAfter())
		}, nil},
		"the time of all is up": {func(t *testing.T, p *Scope, _ *steps, _ *api) {
			t.Helper()
			p.Now = actingNow.Add(time.Hour)
			done, err := p.drainAll(t.Context())
			require.NoError(t, err)
			require.True(t, done)
		}, []string{"a", "b"}},
		"it is not wanted": {func(t *testing.T, p *Scope, _ *steps, _ *api) {
			t.Helper()
			p.State.Annotations = map[string]string{contract.ExcludeDrain: ""}
			done, err := p.drainAll(t.Context())
			require.NoError(t, err)
			require.True(t, done)
		}, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := &api{}
			p, drainer := began(t, server)
			tc.then(t, p, drainer, server)
			slices.Sort(drainer.released)
			require.Equal(t, tc.want, drainer.released)
		})
	}
}

func TestNoNodeIsUncordonedWhileTheOnesThatLeaveAreUnknown(t *testing.T) {
	marked := testNode("a", "p://a", func(n *corev1.Node) {
		n.Spec.Unschedulable, n.Annotations = true, map[string]string{contract.DrainStartedAnnotation: cordonRecord}
	})
	for name, tc := range map[string]struct {
		read bool
		e    external.Object
		api  api
		want int
	}{
		"it was read, and is current": {read: true, e: refTo(external.Present), api: api{listing: infraIs("infra-uid", "7")}, want: 1},
		"it was read, and is old": {read: true, e: refTo(external.Present),
			api: api{listing: infraIs("infra-uid", "8")}},
		"it was not understood": {e: refTo(external.Present), api: api{listing: infraIs("infra-uid", "7")}},
		"none is named":         {e: refTo(external.NotReferenced), want: 1},
		"unread":                {e: refTo(external.Unread)},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &tc.api)
			p.infrastructure, p.infrastructure.Foreign = tc.e, false
			p.machineKind, p.machines = "", &machines{}
			p.complete, p.instances = tc.read, instancesIn(here, marked)
			require.NoError(t, p.removeNodes(t.Context()))
			require.Len(t, tc.api.patched, tc.want)
		})
	}
}

func TestNodesAreDrainedWhereThatIsPossibleAndNotExcluded(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Scope)
		want   bool
	}{
		"a drainer":        {func(*Scope) {}, true},
		"no drainer":       {func(p *Scope) { p.workload.Drainer = nil }, false},
		"the pool says no": {func(p *Scope) { p.State.Annotations = map[string]string{contract.ExcludeDrain: ""} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &api{})
			p.workload.Drainer = &steps{}
			tc.change(p)
			require.Equal(t, tc.want, p.canDrain())
		})
	}
}
