package machine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
			Metadata: contract.Metadata{UID: "m-uid", Deleting: now},
			MachineSpec: contract.MachineSpec{
				ProviderID: "a://b", NodeDeletionTimeout: contract.Some(limit),
			},
			Node: contract.NodeRef{Name: "n", UID: "n-uid"},
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
	ago := func(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }
	boom := errors.New("boom")
	lost := fmt.Errorf("delete: %w", &cluster.NotConnectedError{Cluster: types.NamespacedName{Name: "c"}, Reason: cluster.ReasonUnreachable})
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("another UID"))
	type outcome struct {
		Again   time.Duration
		Started string // empty: not recorded
		Told    int
		Fails   bool
		Asked   bool
	}
	for name, tc := range map[string]struct {
		limit   time.Duration
		started string
		answer  error
		listed  error
		want    outcome
	}{
		"accepted":           {limit: 10 * time.Second, want: outcome{Again: 10 * time.Second, Asked: true}},
		"accepted, no limit": {want: outcome{Asked: true}},
		"the first fails":    {limit: 10 * time.Second, answer: boom, want: outcome{Again: 10 * time.Second, Started: ago(0), Fails: true}},
		"a later one fails": {limit: 10 * time.Second, started: ago(4 * time.Second), answer: boom,
			want: outcome{Again: 6 * time.Second, Started: ago(4 * time.Second), Fails: true}},
		"one fails shortly before": {limit: 10 * time.Second, started: ago(8 * time.Second), answer: boom,
			want: outcome{Again: 2 * time.Second, Started: ago(8 * time.Second), Fails: true}},
		"the limit is reached": {limit: 10 * time.Second, started: ago(10 * time.Second), answer: boom,
			want: outcome{Started: ago(10 * time.Second), Told: 1}},
		"it succeeds at the limit": {limit: 10 * time.Second, started: ago(10 * time.Second),
			want: outcome{Again: 10 * time.Second, Started: ago(10 * time.Second), Asked: true}},
		"it is lost at the limit": {limit: 10 * time.Second, started: ago(10 * time.Second), answer: lost,
			want: outcome{Started: ago(10 * time.Second), Told: 1}},
		"the first fails, no limit":   {answer: boom, want: outcome{Fails: true}},
		"a later one fails, no limit": {started: ago(time.Hour), answer: boom, want: outcome{Started: ago(time.Hour), Fails: true}},
		"the connection is lost":      {limit: 10 * time.Second, answer: lost, want: outcome{Again: engine.ConflictRetry, Started: ago(0)}},
		"the Node was replaced": {limit: 10 * time.Second, answer: conflict,
			want: outcome{Again: 10 * time.Second, Started: ago(0), Fails: true}},
		"it still was a while later": {limit: 10 * time.Second, started: ago(4 * time.Second), answer: conflict,
			want: outcome{Again: 6 * time.Second, Started: ago(4 * time.Second), Fails: true}},
		"it was for too long": {limit: 10 * time.Second, started: ago(10 * time.Second), answer: conflict,
			want: outcome{Started: ago(10 * time.Second), Told: 1}},
		"it was, no limit": {started: ago(4 * time.Second), answer: conflict,
			want: outcome{Started: ago(4 * time.Second), Fails: true}},
		"there is no such Node": {limit: 10 * time.Second, answer: apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "n")},
		"there is no such place": {limit: 10 * time.Second,
			answer: apierrors.NewGenericServerResponse(404, "delete", schema.GroupResource{Resource: "nodes"}, "n", "404 page not found", 0, true),
			listed: boom, want: outcome{Again: 10 * time.Second, Started: ago(0), Fails: true}},
		"there is no such place, and no Node in a list": {limit: 10 * time.Second,
			answer: apierrors.NewGenericServerResponse(404, "delete", schema.GroupResource{Resource: "nodes"}, "n", "", 0, true)},
	} {
		t.Run(name, func(t *testing.T) {
			s := deletingNode(now, tc.limit, tc.answer, tc.listed)
			if tc.started != "" {
				at, err := time.Parse(time.RFC3339, tc.started)
				require.NoError(t, err)
				s.deletion = record(begun(StepDeleteNode, at))
			}
			result, err := deleteNodeStage().run(t.Context(), s)
			got := outcome{
				Again: result.RequeueAfter, Told: len(s.told), Fails: err != nil,
				Asked: s.memory.requested.Has("n-uid"),
			}
			if began := s.begins(StepDeleteNode); !began.IsZero() {
				got.Started = began.Format(time.RFC3339)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
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
	require.Empty(t, s.told)
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
	require.Len(t, s.told, 1)
}

func TestWhatIsKnownOfADeletionIsThatOfOneMachine(t *testing.T) {
	r := testReconciler(testKind(), Ports{}, Options{})
	object, key := goneObject{name: types.NamespacedName{Name: "o"}}, types.NamespacedName{Name: "m"}
	m := r.memory.Of(key, "first")
	m.setGone(object)
	m.requested.Add("u", "", time.Unix(1000, 0))
	is := func(uid types.UID) []any {
		m := r.memory.Of(key, uid)
		return []any{m.gone[object], m.requested["u"].At.Unix()}
	}
	require.Equal(t, []any{true, int64(1000)}, is("first"))
	nothing := []any{false, time.Time{}.Unix()}
	require.Equal(t, nothing, is("second"), "a Machine of the same name")
	r.memory.Forget(key)
	require.Equal(t, nothing, is("first"))
}
