package machine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
)

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
	_, err := pauseStep(t.Context(), s)
	require.NoError(t, err)
	require.Empty(t, released, "no drain was requested")
	s.Cluster = external.ClusterView{Presence: external.Present, State: contract.ClusterState{SpecPaused: true}}
	_, err = pauseStep(t.Context(), s)
	require.NoError(t, err)
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
