package machine

import (
	"context"
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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// attachedTo answers what it is told to about volumes, and writes down what it was asked.
type attachedTo struct {
	result   runner.VolumesResult
	err      error
	asked    []runner.Request
	released int
}

func (a *attachedTo) StepVolumes(_ context.Context, req runner.Request, _ time.Duration) (runner.VolumesResult, error) {
	a.asked = append(a.asked, req)
	return a.result, a.err
}
func (a *attachedTo) Release(string) { a.released++ }

func TestAPassWritesAboutVolumesOnlyWhatALaterOneNeeds(t *testing.T) {
	now := time.Unix(10_000, 0)
	began := now.Add(-time.Minute)
	some := runner.VolumesResult{Attached: []drain.VolumeRef{{Name: "va"}}, Message: "* PersistentVolumeClaims: shop/data",
		RequeueAfter: 15 * time.Second}
	unlisted := runner.VolumesResult{Message: "* waiting for lists", RequeueAfter: 15 * time.Second}
	type outcome struct {
		Result   Result
		Began    contract.Change[time.Time]
		Detached bool
		Message  string
		Told     []string
		Released int
	}
	const waiting = "Waiting for Node volumes to be detached"
	for name, tc := range map[string]struct {
		volumes attachedTo
		limit   time.Duration
		began   time.Time
		drained bool // in this pass
		unread  bool
		want    outcome
	}{
		"nothing is attached": {volumes: attachedTo{result: runner.VolumesResult{Done: true}}, want: outcome{Released: 1}},
		"nothing is attached right after the drain": {
			volumes: attachedTo{result: runner.VolumesResult{Done: true}}, drained: true,
			want: outcome{Detached: true, Released: 1}},
		"something is attached": {
			volumes: attachedTo{result: some},
			want: outcome{Result: Result{Stop: true, Checkpoint: true, RequeueAfter: 15 * time.Second}, Began: contract.SetTo(now),
				Message: waiting + " (started at 1970-01-01T02:46:40Z)\n* PersistentVolumeClaims: shop/data"}},
		"it still is": {
			volumes: attachedTo{result: some}, began: began,
			want: outcome{Result: Result{Stop: true, RequeueAfter: 15 * time.Second},
				Message: waiting + " (started at 1970-01-01T02:45:40Z)\n* PersistentVolumeClaims: shop/data"}},
		"it still is, and the limit is near": {
			volumes: attachedTo{result: some}, began: began, limit: 63 * time.Second,
			want: outcome{Result: Result{Stop: true, RequeueAfter: 3 * time.Second},
				Message: waiting + " (started at 1970-01-01T02:45:40Z)\n* PersistentVolumeClaims: shop/data"}},
		"a limit that was shortened meanwhile has passed": {
			volumes: attachedTo{result: some}, began: began, limit: time.Second,
			want: outcome{Told: []string{`Warning FailedWaitForVolumeDetach error waiting for node volumes detaching Machine's node "n": ` +
				"not completed within 1s: the deletion continues without"}, Released: 1}},
		"it was, and is not any more": {
			volumes: attachedTo{result: runner.VolumesResult{Done: true}}, began: began,
			want: outcome{Detached: true, Released: 1,
				Told: []string{`Normal NodeVolumesDetached success waiting for node volumes detaching Machine's node "n"`}}},
		"the Node does not answer any more": {
			volumes: attachedTo{result: runner.VolumesResult{Done: true, Stopped: drain.VolumesUnreachable, Message: "* left"}},
			want:    outcome{Detached: true, Told: []string{"Warning NodeVolumesLeftAttached * left"}, Released: 1}},
		"it is not known yet": {
			volumes: attachedTo{result: unlisted},
			want:    outcome{Result: Result{Stop: true, RequeueAfter: 15 * time.Second}, Message: waiting + "\n* waiting for lists"}},
		"it is not known yet, and there is a limit": {
			volumes: attachedTo{result: unlisted}, limit: 5 * time.Second,
			want: outcome{Result: Result{Stop: true, Checkpoint: true, RequeueAfter: 5 * time.Second}, Began: contract.SetTo(now),
				Message: waiting + "\n* waiting for lists"}},
		"the cluster is lost while it is asked": {
			volumes: attachedTo{err: cluster.ErrNotConnected},
			want: outcome{Result: Result{Stop: true, RequeueAfter: engine.ConflictRetry},
				Message: waiting + "\n" + cluster.ErrNotConnected.Error()}},
		"the Nodes are unread": {
			unread: true, want: outcome{Result: Result{Stop: true, RequeueAfter: time.Minute}, Began: contract.SetTo(now),
				Message: cluster.ErrNotConnected.Error() + "; to continue without, " + volumesStage().exits}},
		"the Nodes are unread, and there is a limit": {
			unread: true, limit: 5 * time.Second,
			want: outcome{Result: Result{Stop: true, RequeueAfter: 5 * time.Second}, Began: contract.SetTo(now),
				Message: cluster.ErrNotConnected.Error() + "; to continue without, " + volumesStage().exits}},
	} {
		t.Run(name, func(t *testing.T) {
			s := scopeWithVolumes(&tc.volumes, now, tc.limit)
			if !tc.began.IsZero() {
				s.State.VolumeDetachStarted, s.deletion = tc.began, record(begun(StepVolumes, tc.began))
			}
			if tc.drained {
				s.end(StepDrain, "n-uid")
			}
			if tc.unread {
				s.NodesSynced, s.NodesErr = false, cluster.ErrNotConnected
			}
			result, err := volumesStage().run(t.Context(), s)
			require.NoError(t, err)
			deleting, _ := engine.Find(s.Asserted, contract.ConditionDeleting)
			got := outcome{Result: result, Began: s.Update.VolumeDetachStarted, Detached: s.deletion.HasEnded(StepVolumes, "n-uid"),
				Message: deleting.Message, Released: tc.volumes.released}
			for _, e := range s.events {
				got.Told = append(got.Told, e.Kind+" "+e.Reason+" "+e.Note)
			}
			require.Empty(t, cmp.Diff(tc.want, got, cmp.AllowUnexported(contract.Change[time.Time]{})))
		})
	}
}

func scopeWithVolumes(volumes cluster.Volumes, now time.Time, limit time.Duration) *Scope {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid"}}
	return attached(&Scope{
		Scope: base{Object: testKind().New(), Now: now, State: contract.MachineState{
			MachineSpec: contract.MachineSpec{NodeVolumeDetachTimeout: contract.Some(limit)}, Node: contract.NodeRef{Name: "n", UID: "n-uid"},
		}},
		Node: noderef.Match{Outcome: noderef.Matched, Node: node}, NodesSynced: true,
		Workload: Workload{Volumes: volumes},
		env: testReconciler(testKind(), Ports{}, Options{
			Options: engine.Options{Clock: clocktesting.NewFakePassiveClock(now)}, Steps: Steps(),
		}),
	})
}

// drainsAtOnce is a Drainer whose Nodes are drained.
type drainsAtOnce struct{ released *int }

func (drainsAtOnce) Step(context.Context, runner.Request) (runner.Result, error) {
	return runner.Result{Done: true}, nil
}
func (d drainsAtOnce) Release(string) { *d.released++ }

func TestTheEndOfADrainAndWhatItFindsOfVolumesAreOneCheckpoint(t *testing.T) {
	now, released := time.Unix(10_000, 0), 0
	attached := &attachedTo{result: runner.VolumesResult{Attached: []drain.VolumeRef{{Name: "va"}}}}
	s := scopeWithVolumes(attached, now, 0)
	s.State.Deleting = now
	s.Workload.Drainer = drainsAtOnce{&released}
	result, err := run(t.Context(), []Step{
		{Name: StepDrain, On: engine.InDeletion, Run: func(ctx context.Context, s *Scope) (Result, error) { return s.drain(ctx) }},
		{Name: StepVolumes, On: engine.InDeletion, Run: volumesStage().run},
	}, s)
	require.NoError(t, err)
	require.False(t, !result.Checkpoint || !s.deletion.HasEnded(StepDrain, "n-uid") || s.Update.VolumeDetachStarted.Keeps())
	require.Zero(t, released+attached.released, "the Node was released although its pods say whose volumes stay")
}

// drainsForEver is a Drainer whose Nodes are never drained.
type drainsForEver struct{ released *[]string }

func (drainsForEver) Step(context.Context, runner.Request) (runner.Result, error) {
	return runner.Result{Message: "pods"}, nil
}
func (d drainsForEver) Release(node string) { *d.released = append(*d.released, node) }

// holdsNothing is a cache without objects.
type holdsNothing struct{ cache.Cache }

func (holdsNothing) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, key.Name)
}

// draining is the scope of a Machine whose drain has queued evictions.
func draining(t *testing.T, released *[]string) *Scope {
	t.Helper()
	now := time.Unix(1000, 0)
	s := scopeWithVolumes(nil, now, 0)
	s.State.Key = types.NamespacedName{Namespace: "default", Name: "m1"}
	s.State.Deleting, s.State.DrainStarted = now, now
	s.deletion = s.State.Deletion(now)
	s.Workload = Workload{Drainer: drainsForEver{released}}
	s.env = testReconciler(contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine),
		Ports{Ports: engine.Ports{Cache: holdsNothing{}}},
		Options{
			Options: engine.Options{Clock: clocktesting.NewFakePassiveClock(now)},
			Steps:   s.env.options.Steps,
			Policy:  s.env.options.Policy})
	s.env.frame.Finalizer = contract.MachineFinalizer
	attached(s)
	s.memory.observeDeletion(s.State.Deleting)
	_, err := s.drain(t.Context())
	require.NoError(t, err)
	require.Empty(t, *released)
	return s
}

// A person who removes the finalizer of a Machine wants its deletion to end: no more pods are evicted from its Node.
func TestAMachineThatVanishesInItsDrainLetsGoOfItsNode(t *testing.T) {
	var released []string
	s := draining(t, &released)
	_, err := s.env.Reconcile(t.Context(), ctrl.Request{NamespacedName: s.State.Key})
	require.NoError(t, err)
	require.Equal(t, []string{"n"}, released)
	_, err = s.env.Reconcile(t.Context(), ctrl.Request{NamespacedName: s.State.Key})
	require.NoError(t, err)
	require.Len(t, released, 1, "it may be another Machine's by now")
}

func TestAMachineWhoseFinalizerIsTakenAwayInItsDrainLetsGoOfItsNode(t *testing.T) {
	var released []string
	s := draining(t, &released)
	m := fake.Machine("m1")
	m.SetFinalizers([]string{"example.com/others"})
	m.SetDeletionTimestamp(new(metav1.NewTime(s.Now)))
	_, err := s.env.ReconcileObject(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, []string{"n"}, released)
}

// The process lives on when a backup of the management cluster is restored, and its runner has evictions in its queue.
func TestAMachineThatIsNotDeletedAnyMoreLetsGoOfItsNode(t *testing.T) {
	var released []string
	s := draining(t, &released)
	s.env.begin(t.Context(), s)
	require.Empty(t, released)
	s.State.Deleting = time.Time{}
	s.env.begin(t.Context(), s)
	require.Equal(t, []string{"n"}, released)
}

func TestAMachineThatIsPausedInItsDrainLetsGoOfItsNode(t *testing.T) {
	var released []string
	s := draining(t, &released)
	s.Cluster = external.ClusterView{Presence: external.Unread}
	pass := func() {
		_, err := pauseStep(t.Context(), s)
		require.NoError(t, err)
		s.releaseIfPaused()
	}
	pass()
	require.Empty(t, released, "no drain was requested")
	s.Cluster = external.ClusterView{Presence: external.Present, State: contract.ClusterState{SpecPaused: true}}
	pass()
	require.Equal(t, []string{"n"}, released)
	s.env.memory.Forget(s.State.Key)
	require.Len(t, released, 1, "it was let go of already")
}

func TestAMachineThatIsHandedToAnotherControllerIsForgotten(t *testing.T) {
	var released []string
	s := draining(t, &released)
	s.env.frame.Options.WatchFilter = "mine"
	require.Same(t, s.memory, s.env.memory.Of(client.ObjectKeyFromObject(fake.Machine("m1")), s.State.UID))
	own, others := fake.Machine("m1"), fake.Machine("m1")
	own.SetLabels(map[string]string{contract.WatchFilterLabel: "mine"})
	filter := s.env.frame.WatchFilterPredicate()
	require.True(t, filter.Update(ctrlevent.UpdateEvent{ObjectOld: own, ObjectNew: others}), "otherwise no pass would follow")
	require.False(t, filter.Update(ctrlevent.UpdateEvent{ObjectOld: others, ObjectNew: others}))
	_, err := s.env.ReconcileObject(t.Context(), others)
	require.NoError(t, err)
	require.NotSame(t, s.memory, s.env.memory.Of(client.ObjectKeyFromObject(others), s.State.UID))
	require.Equal(t, []string{"n"}, released, "the other controller begins to watch it in its next pass")
}

func TestAMachineLetsNoNodeGoThatTookTheNameOfItsOwn(t *testing.T) {
	for _, taken := range []noderef.Outcome{noderef.Stale, noderef.Claimed} {
		var released []string
		s := draining(t, &released)
		s.memory = &recollection{} // another process has begun the drain
		s.memory.requested.Add("n-uid", "", s.Now)
		s.Node = noderef.Match{Outcome: taken}
		_, err := volumesStage().run(t.Context(), s)
		require.NoError(t, err)
		require.Empty(t, released, "another Machine may drain it")
	}
}

func TestAHookThatComesInTheMiddleOfADrainLetsGoOfItsNode(t *testing.T) {
	for name, step := range map[string]engine.StepFunc[*Scope]{contract.PreDrainHook: preDrainHooksStage().run,
		contract.PreTerminateHook: preTerminateHooksStage().run} {
		var released []string
		s := draining(t, &released)
		_, err := step(t.Context(), s)
		require.NoError(t, err)
		require.Empty(t, released, "there is none")
		s.State.Annotations = map[string]string{name + "/late": ""}
		result, err := step(t.Context(), s)
		require.NoError(t, err)
		require.True(t, result.Stop)
		require.Equal(t, []string{"n"}, released, "no pod is evicted while a hook holds the drain up")
	}
}

func TestTheEndOfADeletionLetsGoOfTheNode(t *testing.T) {
	var released []string
	s := draining(t, &released)
	s.State.Finalizers = []string{"example.com/others", s.env.frame.Finalizer}
	result, err := removeFinalizer(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, []string{"n"}, released)
	require.Equal(t, contract.SetTo([]string{"example.com/others"}), s.Update.Finalizers)
	require.True(t, result.Checkpoint, "others hold it, and no later pass says that we are done")
}
