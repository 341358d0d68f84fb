package deployment_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// runSelecting starts the reconciler under test with a cache of one kind that has only what a selector selects.
func (w *world) runSelecting(gvk schema.GroupVersionKind, selector string) {
	w.t.Helper()
	selects, err := labels.Parse(selector)
	require.NoError(w.t, err)
	mgr := w.Manager("narrowed", ctrl.Options{Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
		testenv.Object(gvk, ""): {Label: selects},
	}}})
	_, err = deployment.SetupWithManager(w.t.Context(), mgr, w.kinds, deployment.Options{
		Options: pass.Options{StatusDelay: 20 * time.Millisecond},
	})
	require.NoError(w.t, err)
	w.stop = w.Run(mgr)
}

// Whoever narrows the cache of Machines would otherwise lose all of them at once: places without a Machine are the first to go.
func TestADeploymentDoesNotTakeMachinesThatTheCacheLeavesOutForMissing(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]string{"rolling": "RollingUpdate", "all at once": "Recreate"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, d := rolledOut(t, 2, fake.WithField(strategy, "spec", "rollout", "strategy", "type"))
			w.stop()
			w.runSelecting(w.kinds.Machine.GVK, "team=ours")
			w.Change(d, template("green"))
			machines := w.machinesNow()
			first := min(machines[0].GetName(), machines[1].GetName())
			w.AwaitCondition(d, deployment.ConditionRollingOut, "", first+" exists, and the cache does not show it")
			w.Never("a Machine of the old template goes", 300*time.Millisecond, func() string {
				if n := w.images()["blue"]; n != 2 {
					return fmt.Sprint(n, " are left")
				}
				return ""
			})
			w.stop()
			w.run()
			w.rolled(d, "green", 2)
		})
	}
}

func TestMachinesOfASetInDeletionThatTheCacheLeavesOutAreNoFreePlaces(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	w.stop()
	hold := func(with ...string) {
		for _, m := range w.machinesNow() {
			w.Change(&m, func(u *unstructured.Unstructured) { u.SetFinalizers(with) })
		}
	}
	hold("example.com/hold")
	set := w.setsNow()[0]
	require.NoError(t, w.Client.Delete(t.Context(), &set))
	w.runSelecting(w.kinds.Machine.GVK, "team=ours")
	w.AwaitCondition(d, deployment.ConditionRollingOut, "", "exists, and the cache does not show it")
	require.Len(t, w.machinesNow(), 2)
	w.stop()
	hold()
	w.run()
	w.rolled(d, "blue", 2)
}

// A set that gets the label is gone for the deployment: without the question, it makes the Machines of that set a second time.
func TestMachinesOfASetThatTheCacheLeavesOutFromNowOnAreNotMadeAgain(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"while the process runs": false, "while it does not": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).live()
			w.runSelecting(w.kinds.Set.GVK, "!elsewhere")
			d := w.deployment(2, fake.WithField("OnDelete", "spec", "rollout", "strategy", "type"))
			w.rolled(d, "blue", 2)
			w.Change(d, template("green"))
			w.AwaitCondition(d, deployment.ConditionRollingOut, "", "2 outdated Machines must be deleted")
			blue := w.setsNow()[0]
			if imageOf(&blue) != "blue" {
				blue = w.setsNow()[1]
			}
			if restarts {
				w.stop()
			}
			if w.labels(&blue, true); restarts {
				w.runSelecting(w.kinds.Set.GVK, "!elsewhere")
			}
			w.AwaitCondition(d, deployment.ConditionRollingOut, "", blue.GetName()+" exists, and the cache does not show it")
			require.Equal(t, map[string]int{"blue": 2}, w.images())
			w.labels(&blue, false)
			w.AwaitCondition(d, deployment.ConditionRollingOut, "", "2 outdated Machines must be deleted")
		})
	}
}

// labels puts the label elsewhere on an object, or takes it away.
func (w *world) labels(obj *unstructured.Unstructured, on bool) {
	w.t.Helper()
	w.Change(obj, func(u *unstructured.Unstructured) {
		all := u.GetLabels()
		if delete(all, "elsewhere"); on {
			all["elsewhere"] = ""
		}
		u.SetLabels(all)
	})
}

func TestMachinesOfASetInDeletionThatTheCacheLeavesOutFromNowOnAreNoFreePlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.runSelecting(w.kinds.Set.GVK, "!elsewhere")
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	old := w.machinesNow()
	hold := func(with ...string) {
		for _, m := range old {
			w.Change(&m, func(u *unstructured.Unstructured) { u.SetFinalizers(with) })
		}
	}
	hold("example.com/hold")
	set := w.setsNow()[0]
	require.NoError(t, w.Client.Delete(t.Context(), &set))
	w.AwaitCondition(d, deployment.ConditionRollingOut, "", "to be gone")
	w.until("the Machine that there may be more", func() bool { return len(w.machinesNow()) >= 3 })
	w.labels(&set, true)
	w.AwaitCondition(d, deployment.ConditionRollingOut, "", set.GetName()+" exists, and the cache does not show it")
	require.Len(t, w.machinesNow(), 3, "surge is 1")
	w.stop()
	hold()
	w.run()
	w.rolled(d, "blue", 2)
}
