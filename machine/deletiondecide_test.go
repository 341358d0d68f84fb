package machine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

func TestAMessageNamesHooksInOrder(t *testing.T) {
	p := contract.PreDrainHook
	s := &Scope{}
	s.State.Annotations = map[string]string{"other": "", p + "/b": "", p + "/a": ""}
	require.True(t, s.waitForHooks(p, ReasonWaitingForPreDrainHook, "pre-drain").Stop)
	want := "Waiting for pre-drain hooks to succeed (hooks: " + p + "/a," + p + "/b)"
	if said, _ := s.Condition(contract.ConditionDeleting); said.Message != want {
		t.Errorf("want %q, got %q", want, said.Message)
	}
}

// deletingNode is a pass that has nothing left to do but to delete the Node.
func deletingNode(now time.Time, limit time.Duration, answer, listed error) *Scope {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid"}, Spec: corev1.NodeSpec{ProviderID: "a://b"}}
	return attached(&Scope{
		Scope: base{Now: now, State: contract.MachineState{
			Metadata:    contract.Metadata{UID: "m-uid", Deleting: now},
			MachineSpec: contract.MachineSpec{ProviderID: "a://b", NodeDeletionTimeout: contract.Some(limit)},
			Node:        contract.NodeRef{Name: "n", UID: "n-uid"},
		}},
		Node: noderef.Match{Outcome: noderef.Matched, Node: node}, NodesSynced: true,
		Workload: Workload{Client: interceptor.NewClient(nil, interceptor.Funcs{
			Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
				var options client.DeleteOptions
				options.ApplyOptions(opts)
				if options.Preconditions == nil || *options.Preconditions.UID != "n-uid" {
					return errors.New("a delete without the UID")
				}
				return answer
			},
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return listed },
		})},
		env: testReconciler(testKind(), Ports{}, Options{Options: engine.Options{Clock: clocktesting.NewFakePassiveClock(now)}}),
	})
}

func TestAFailedAttemptToDeleteANodeIsRecordedAndMadeAgainUntilItsLimit(t *testing.T) {
	now := time.Unix(1000, 0).UTC()
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	never, nodes := time.Time{}, schema.GroupResource{Resource: "nodes"}
	boom, lost := errors.New("boom"), fmt.Errorf("delete: %w", &cluster.NotConnectedError{Reason: cluster.ReasonUnreachable})
	conflict := apierrors.NewConflict(nodes, "n", errors.New("another UID"))
	noPlace := apierrors.NewGenericServerResponse(404, "delete", nodes, "n", "404 page not found", 0, true)
	const ten = 10 * time.Second
	type outcome struct {
		Again   time.Duration
		Started time.Time // zero: not recorded
		Told    int
		Fails   bool
		Asked   bool
	}
	for name, tc := range map[string]struct {
		limit          time.Duration
		started        time.Time
		answer, listed error
		want           outcome
	}{
		"accepted":                    {ten, never, nil, nil, outcome{Again: ten, Asked: true}},
		"accepted, no limit":          {0, never, nil, nil, outcome{Asked: true}},
		"the first fails":             {ten, never, boom, nil, outcome{Again: ten, Started: now, Fails: true}},
		"a later one fails":           {ten, ago(4), boom, nil, outcome{Again: 6 * time.Second, Started: ago(4), Fails: true}},
		"the limit is reached":        {ten, ago(10), boom, nil, outcome{Started: ago(10), Told: 1}},
		"it succeeds at the limit":    {ten, ago(10), nil, nil, outcome{Again: ten, Started: ago(10), Asked: true}},
		"it is lost at the limit":     {ten, ago(10), lost, nil, outcome{Started: ago(10), Told: 1}},
		"the first fails, no limit":   {0, never, boom, nil, outcome{Fails: true}},
		"a later one fails, no limit": {0, ago(3600), boom, nil, outcome{Started: ago(3600), Fails: true}},
		"the connection is lost":      {ten, never, lost, nil, outcome{Again: engine.ConflictRetry, Started: now}},
		"the Node was replaced":       {ten, never, conflict, nil, outcome{Again: ten, Started: now, Fails: true}},
		"it still was later":          {ten, ago(4), conflict, nil, outcome{Again: 6 * time.Second, Started: ago(4), Fails: true}},
		"it was for too long":         {ten, ago(10), conflict, nil, outcome{Started: ago(10), Told: 1}},
		"it was, no limit":            {0, ago(4), conflict, nil, outcome{Started: ago(4), Fails: true}},
		"there is no such Node":       {ten, never, apierrors.NewNotFound(nodes, "n"), nil, outcome{}},
		"there is no such place":      {ten, never, noPlace, boom, outcome{Again: ten, Started: now, Fails: true}},
		"and no Node in a list":       {ten, never, noPlace, nil, outcome{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := deletingNode(now, tc.limit, tc.answer, tc.listed)
			if !tc.started.IsZero() {
				s.deletion = record(begun(StepDeleteNode, tc.started))
			}
			result, err := deleteNodeStage().run(t.Context(), s)
			require.Equal(t, tc.want, outcome{Again: result.RequeueAfter, Started: s.begins(StepDeleteNode), Told: len(s.events), Fails: err != nil,
				Asked: s.memory.requested.Has("n-uid")})
		})
	}
}

// The default limit does not apply while a cluster does not answer.
func TestANodeThatCouldNotBeReadForLongIsDeletedWhenItCan(t *testing.T) {
	now := time.Unix(1000, 0).UTC()
	lost := &cluster.NotConnectedError{Cluster: types.NamespacedName{Name: "c"}, Reason: cluster.ReasonUnreachable}
	s := deletingNode(now, 0, lost, nil)
	s.State.NodeDeletionTimeout = contract.Opt[time.Duration]{}
	s.NodesSynced, s.NodesErr = false, lost
	_, err := deleteNodeStage().run(t.Context(), s)
	require.NoError(t, err)
	s.NodesSynced, s.NodesErr, s.Now = true, nil, now.Add(time.Minute)
	result, err := deleteNodeStage().run(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, Result{Stop: true, RequeueAfter: engine.ConflictRetry}, result, "it was lost again")
	require.Empty(t, s.events)
	s.Workload, s.NodesSynced, s.NodesErr = deletingNode(now, 0, nil, nil).Workload, true, nil
	_, err = deleteNodeStage().run(t.Context(), s)
	require.NoError(t, err)
	require.False(t, s.memory.requested["n-uid"].At.IsZero())
}

func TestANodeThatWasAskedToGoIsNotAskedAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	s := deletingNode(now, 10*time.Second, errors.New("asked again"), nil)
	s.memory.requested.Add("n-uid", "", s.Now)
	s.Now = now.Add(3 * time.Second)
	result, err := deleteNodeStage().run(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, Result{Stop: true, RequeueAfter: 7 * time.Second}, result)
	s.Now = now.Add(10 * time.Second)
	result, err = deleteNodeStage().run(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, Result{}, result)
	require.Len(t, s.events, 1)
}

func TestWhatIsKnownOfADeletionIsThatOfOneMachine(t *testing.T) {
	r := testReconciler(testKind(), Ports{}, Options{})
	key := types.NamespacedName{Name: "m"}
	m := r.memory.Of(key, "first")
	m.noControlPlane = true
	m.requested.Add("u", "", time.Unix(1000, 0))
	is := func(uid types.UID) []any {
		m := r.memory.Of(key, uid)
		return []any{m.noControlPlane, m.requested["u"].At.Unix()}
	}
	require.Equal(t, []any{true, int64(1000)}, is("first"))
	nothing := []any{false, time.Time{}.Unix()}
	require.Equal(t, nothing, is("second"), "a Machine of the same name")
	r.memory.Forget(key)
	require.Equal(t, nothing, is("first"))
}

// The process lives on when a backup of the management cluster is restored, which has the infrastructure in the version that was deleted.
func TestInfrastructureThatARestoreBroughtBackIsDeletedAgain(t *testing.T) {
	first, asked := time.Unix(1000, 0), 0
	server := interceptor.NewClient(nil, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			asked++
			return nil
		},
	})
	e := present("Infra")
	e.Object.SetUID("u")
	e.Object.SetResourceVersion("7")
	for name, passes := range map[string][]time.Time{
		"a pass has found the Machine running": {first, {}, first.Add(time.Hour)},
		"no pass has":                          {first, first.Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			asked = 0
			s := attached(&Scope{
				Scope: base{Now: first},
				env:   testReconciler(testKind(), Ports{Ports: engine.Ports{Client: server, Cache: holdsNothing{}}}, Options{}),
			})
			for i, requestedAt := range passes {
				s.State.Deleting = requestedAt
				s.env.begin(t.Context(), s)
				if requestedAt.IsZero() {
					continue
				}
				require.Equal(t, i > 0 && passes[i-1].Equal(requestedAt), s.isGoing(e))
				_, err := s.deleteReferenced(t.Context(), e, "", "")
				require.NoError(t, err)
				s.env.begin(t.Context(), s)
				require.True(t, s.isGoing(e), "the same deletion")
			}
			require.Equal(t, 2, asked)
		})
	}
}

func TestWhatIsRememberedOfADeletionEndsWithIt(t *testing.T) {
	first := time.Unix(1000, 0)
	for name, next := range map[string]time.Time{"none": {}, "another": first.Add(time.Second)} {
		m := &recollection{}
		m.observeDeletion(first)
		m.noControlPlane = true
		m.requested.Add("u", "7", first)
		m.observeDeletion(first.Local())
		require.Equal(t, []any{true, true}, []any{m.noControlPlane, m.requested.Has("u")}, name)
		m.observeDeletion(next)
		require.Equal(t, ofDeletion{requestedAt: next}, m.ofDeletion, name)
		require.Zero(t, testing.AllocsPerRun(10, func() { m.observeDeletion(next) }), name)
	}
}

func TestRecordOfADeletion(t *testing.T) {
	deleting := time.Unix(100_000, 0).UTC()
	old := deleting.Add(-time.Hour)
	other := contract.DeletionOf(&contract.Metadata{Deleting: old}, nil, old)
	other.End(StepDrain, "n-uid", old)
	pass := func(state contract.MachineState, act func(*Scope)) *Scope {
		s := attached(&Scope{Scope: base{Now: deleting.Add(time.Minute), State: state}})
		s.env.begin(t.Context(), s)
		act(s)
		s.recordDeletion()
		return s
	}
	stale := contract.MachineState{DrainStarted: old, VolumeDetachStarted: old}
	for key, c := range other.Changes(nil) {
		text, _ := c.Value()
		stale.Annotations = map[string]string{key: text}
	}
	t.Run("that of another deletion counts for nothing, and goes", func(t *testing.T) {
		for name, requested := range map[string]time.Time{"the Machine lives": {}, "it is being deleted": deleting} {
			state := stale
			state.Deleting = requested
			s := pass(state, func(s *Scope) { require.False(t, s.deletion.HasEnded(StepDrain, "n-uid"), name) })
			require.NotContains(t, s.State.Annotations, contract.DeletionAnnotation, name)
			require.Equal(t, contract.SetTo(time.Time{}), s.Update.DrainStarted, name)
			require.Equal(t, contract.SetTo(time.Time{}), s.Update.VolumeDetachStarted, name)
		}
	})
	t.Run("a start is stored once, where the kind has a field for it", func(t *testing.T) {
		for name, fields := range map[string][]string{"none": nil, "the drain": {StepDrain}} {
			s := pass(contract.MachineState{Metadata: contract.Metadata{Deleting: deleting}}, func(s *Scope) {
				s.env.startsElsewhere = fields
				require.True(t, s.begin(StepDrain))
				require.False(t, s.begin(StepDrain))
			})
			require.Equal(t, contract.SetTo(deleting.Add(time.Minute)), s.Update.DrainStarted, name)
			_, recorded := s.State.Annotations[contract.DeletionAnnotation]
			require.Equal(t, fields == nil, recorded, name)
		}
	})
	t.Run("kinds with fields are recognised", func(t *testing.T) {
		own := contract.Unstructured(testKind().GVK, contract.LayoutsOf(contract.V1Beta2).Machine)
		require.Equal(t, []string{StepDrain, StepVolumes}, startsElsewhere(own))
		require.Empty(t, startsElsewhere(contract.Unstructured(testKind().GVK, contract.GardenerLayouts().Machine)))
	})
}

func TestWhatIsRememberedOfAMachineEndsWithIt(t *testing.T) {
	r := testReconciler(testKind(), Ports{}, Options{})
	key := types.NamespacedName{Namespace: "default", Name: "m1"}
	of := r.memory.Of(key, "")
	require.Same(t, of, r.memory.Of(key, ""), "nothing is remembered")
	r.Forget(key)
	require.NotSame(t, of, r.memory.Of(key, ""), "something is remembered")
}

func TestAMachineThatALoopForgetsIsNotDrainedAnyMore(t *testing.T) {
	r := testReconciler(testKind(), Ports{}, Options{})
	key, released := types.NamespacedName{Namespace: "default", Name: "m1"}, 0
	r.memory.Of(key, "").watch(watchedNode{name: "n", release: func() { released++ }})
	r.Forget(key)
	r.Forget(key)
	require.Equal(t, 1, released, "the drain ended %d times", released)
}
