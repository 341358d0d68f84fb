package deployment_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestARecreationDeletesAllMachinesBeforeItMakesNewOnes(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 3, annotated(contract.RolloutTypeAnnotation, contract.RolloutRecreate))
	stop := w.watch()
	w.machines.Hold(true)
	w.Change(d, template("green"))
	w.Eventually("all to be in deletion", func() string {
		for _, m := range w.machinesNow() {
			if m.GetDeletionTimestamp() == nil {
				return fmt.Sprint(w.describeSets())
			}
		}
		return ""
	})
	w.settled(d)
	require.Equal(t, map[string]int{"blue": 3}, w.images())
	w.machines.Hold(false)
	w.rolled(d, "green", 3)
	stop()
	require.Equal(t, []int{3, 0}, []int{w.most, w.least})
}

func TestARollbackThatIsAskedForInTheDeploymentIsDoneOnceAndWaitsWhileThePauseLasts(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	first := w.setsNow()[0].GetName()
	w.rollTo(d, "green", 2)
	w.Change(d, fake.WithField(true, "spec", "paused"), annotated(contract.RollbackToAnnotation, "1"))
	w.blocked(d, "rollback")
	require.Equal(t, "green", testenv.Text(w.Get(d), "spec", "template", "spec", "infrastructureRef", "name"))
	// The template changes meanwhile: the revision that was asked for is the one that comes.
	w.Change(d, version("v1.37.0"))
	w.Change(d, fake.WithField(false, "spec", "paused"))
	w.rolled(d, "blue", 2)
	require.NotContains(t, w.Get(d).GetAnnotations(), contract.RollbackToAnnotation)
	for _, s := range w.setsNow() {
		if testenv.Number(&s, "spec", "replicas") > 0 {
			require.Equal(t, first, s.GetName())
		}
	}
	w.Change(d, annotated(contract.RollbackToAnnotation, "77"))
	w.Eventually("the request to be forgotten", func() string { return w.Get(d).GetAnnotations()[contract.RollbackToAnnotation] })
	w.rolled(d, "blue", 2)
}

func TestARollbackToATemplateThatIsGoneSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	w.rollTo(d, "green", 2)
	gone := testenv.Object(infraTemplate(), "blue")
	require.NoError(t, w.Client.Delete(t.Context(), gone))
	w.until("the sets to see it", func() bool { // until then, one Machine may still be made from it
		return apierrors.IsNotFound(w.cached.Get(t.Context(), client.ObjectKeyFromObject(gone), testenv.Object(infraTemplate(), "")))
	})
	commands := deployment.Commands{Client: w.Client, Kinds: w.kinds}
	key := types.NamespacedName{Namespace: "default", Name: "workers"}
	_, err := commands.Undo(t.Context(), key, 1)
	require.NoError(t, err)
	w.blocked(d, infraTemplate().Kind+" does not exist")
	progress, err := commands.Status(t.Context(), key)
	require.NoError(t, err)
	require.False(t, progress.Done)
	require.NotEmpty(t, progress.Blocking)
	require.Equal(t, 2, w.images()["green"], "what works stays")
	gone.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"image": "blue"}}}
	gone.SetResourceVersion("")
	w.Create(gone)
	w.rolled(d, "blue", 2)
}

func TestAnUndoReadsAgainWhatWasChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 1)
	w.rollTo(d, "green", 1)
	kind := w.kinds.Deployment.GVK.GroupKind()
	w.Store.FailNext(func(r fake.Request) bool {
		return r.Verb == "patch" && r.GVK.GroupKind() == kind && r.Subresource == "" && r.UserAgent != "deployments"
	}, apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: "machinedeployments"}, "workers", fmt.Errorf("changed")))
	commands := deployment.Commands{Client: w.Client, Kinds: w.kinds}
	_, err := commands.Undo(t.Context(), types.NamespacedName{Namespace: "default", Name: "workers"}, 0)
	require.NoError(t, err)
	w.rolled(d, "blue", 1)
}

// The template "red" does not exist, so no set is made for it, and what runs is one revision newer than what a plain undo returns to.
func TestAnUndoOfATemplateThatHasNoSetYetReturnsToWhatRuns(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	commands := deployment.Commands{Client: w.Client, Kinds: w.kinds}
	for _, image := range []string{"blue", "green"} {
		w.rollTo(d, image, 2)
		sets, machines := len(w.setsNow()), w.uids()
		w.Change(d, template("red"))
		w.blocked(d, "does not exist")
		done, err := commands.Undo(t.Context(), client.ObjectKeyFromObject(d), 0)
		require.NoError(t, err)
		require.Equal(t, []any{int64(sets), int32(2)}, []any{done.Number, done.Replicas}, image)
		w.rolled(d, image, 2)
		w.Change(d, template("red"))
		w.blocked(d, "does not exist")
		w.Change(d, annotated(contract.RollbackToAnnotation, "0"))
		w.rolled(d, image, 2)
		require.Equal(t, machines, w.uids(), "no Machine was replaced")
		require.Len(t, w.setsNow(), sets)
	}
}

// A backup knows UIDs that no object has any more. Without a garbage collector, which deletes what such UIDs own, the sets come back.
func TestARestoredDeploymentTakesBackSetsThatADeadOneOwns(t *testing.T) {
	t.Parallel()
	loops := fake.AllLoops()
	loops.GarbageCollector = false
	w := newWorldWith(t, clusterAPI(), fake.Options{}, loops).live()
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	w.stop()
	machines, before := w.uids(), w.setsNow()[0].GetName()
	restored := w.Get(d)
	w.Change(d, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	require.NoError(t, w.Client.Delete(t.Context(), d))
	// The dead deployment was about to delete a Machine.
	marked := w.machinesNow()[0]
	w.Change(&marked, annotated(scale.DeleteAnnotation, "MachineDeployment/"+string(d.GetUID())))
	restored.SetUID("")
	restored.SetResourceVersion("")
	w.Create(restored)
	w.run()
	w.until("the restored deployment to own the set, and nothing to be marked", func() bool {
		sets := w.setsNow()
		owner, marks := metav1.GetControllerOf(&sets[0]), w.Get(&marked).GetAnnotations()[scale.DeleteAnnotation]
		return len(sets) == 1 && owner != nil && owner.UID == w.Get(d).GetUID() && marks == ""
	})
	require.Equal(t, before, w.setsNow()[0].GetName())
	require.Equal(t, machines, w.uids())
	w.rollTo(d, "green", 2)
}

// Everything that a process remembers is lost in the middle of a rollout that does not go on.
func TestTheProgressDeadlineOutlivesTheManager(t *testing.T) {
	t.Parallel()
	w := newWorldWithLimits(t).live()
	w.run()
	d := w.deployment(1, progressDeadline(3))
	w.rolled(d, "blue", 1)
	old := w.uids()
	w.machines.NotReady(func(m client.Object) bool { return m.GetUID() != old[0] })
	w.Change(d, template("green"))
	w.blocked(d, "waiting for workers-")
	w.blocked(d, "to become available")
	w.stop()
	w.run()
	w.AwaitCondition(d, deployment.ConditionProgressing, "ProgressDeadlineExceeded")
	w.run()
	w.settled(d)
	w.stop()
	require.Equal(t, "ProgressDeadlineExceeded", w.condition(d, deployment.ConditionProgressing).Reason)
	require.Equal(t, map[string]int{"blue": 1, "green": 1}, w.images(), "what works stays")
	w.machines.NotReady(func(client.Object) bool { return false })
	w.rolled(d, "green", 1)
	w.AwaitCondition(d, deployment.ConditionProgressing, "NewReplicaSetAvailable")
}

func TestARolloutOverCachesThatLagKeepsItsBoundsAndMakesOneSetForATemplate(t *testing.T) {
	t.Parallel()
	kinds := clusterAPI()
	w := newWorldWith(t, kinds, fake.Options{CacheLagFunc: func(kind schema.GroupKind, _ types.NamespacedName) time.Duration {
		return map[string]time.Duration{"MachineSet": 300 * time.Millisecond, "Machine": 100 * time.Millisecond}[kind.Kind]
	}}, fake.AllLoops()).live()
	w.run()
	d := w.deployment(3)
	w.rolled(d, "blue", 3)
	stop := w.watch()
	w.rollTo(d, "green", 3)
	stop()
	require.Len(t, w.setsNow(), 2)
	require.LessOrEqual(t, w.most, 4, "maxSurge is 1")
	require.GreaterOrEqual(t, w.least, 3, "maxUnavailable is 0")
	require.Equal(t, "2", w.Get(d).GetAnnotations()[contract.RevisionAnnotation])
	for _, m := range w.machinesNow() {
		require.Equal(t, "workers", m.GetLabels()[contract.DeploymentNameLabel])
		require.NotContains(t, m.GetAnnotations(), scale.DeleteAnnotation)
	}
}
