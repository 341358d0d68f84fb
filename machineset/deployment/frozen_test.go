package deployment_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// A Recreate rollout of a frozen deployment would delete everything that nothing replaces.
func TestAFrozenDeploymentStartsNoRolloutThatItCouldNotFinish(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]string{"rolling": "RollingUpdate", "all at once": "Recreate"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, d := rolledOut(t, 2, fake.WithField(strategy, "spec", "rollout", "strategy", "type"))
			freeze := func(obj *unstructured.Unstructured, value string) {
				w.Change(obj, func(u *unstructured.Unstructured) {
					labels := u.GetLabels()
					if labels == nil {
						labels = map[string]string{}
					}
					labels[scale.FreezeLabel] = value
					u.SetLabels(labels)
				})
			}
			freeze(d, "True")
			w.Change(d, template("green"), fake.WithField(int64(3), "spec", "replicas"))
			c := w.AwaitCondition(d, deployment.ConditionRollingOut, "", "frozen and creates no Machines")
			require.Equal(t, metav1.ConditionTrue, c.Status)
			w.Never("a set or a Machine is created", 300*time.Millisecond, func() string {
				if len(w.setsNow()) != 1 || w.images()["blue"] != 2 {
					return "it is"
				}
				return ""
			})
			w.Change(d, fake.WithField(int64(1), "spec", "replicas"))
			w.until("a frozen deployment to shrink", func() bool { return w.images()["blue"] == 1 })
			set := w.setsNow()[0]
			freeze(&set, "True")
			w.seesFrozen(&set)
			freeze(d, "false")
			w.AwaitCondition(d, deployment.ConditionRollingOut, "", "frozen and creates no Machines")
			require.Len(t, w.setsNow(), 1, "a frozen set is enough")
			freeze(&set, "false")
			w.rolled(d, "green", 1)
		})
	}
}

// seesFrozen waits until the reconciler under test sees the label of a set: it may see sooner that a deployment has lost its own.
func (w *world) seesFrozen(set *unstructured.Unstructured) {
	w.t.Helper()
	w.Eventually("the deployment to see it", func() string {
		seen := testenv.Object(w.kinds.Set.GVK, "")
		require.NoError(w.t, w.seen.Get(w.t.Context(), client.ObjectKeyFromObject(set), seen))
		return map[bool]string{true: "it does not"}[seen.GetLabels()[scale.FreezeLabel] != "True"]
	})
}

// The deployment has fewer Machines than it wants: what may be unavailable of it is used up.
func TestASetThatAFrozenDeploymentDoesNotRaiseReplacesNoAvailableMachine(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2, fake.WithField(int64(1), "spec", "rollout", "strategy", "rollingUpdate", "maxUnavailable"))
	w.limitsAre("blue", `{"maxUnavailable":1}`)
	w.Change(d, fake.WithField("True", "metadata", "labels", scale.FreezeLabel), fake.WithField(int64(3), "spec", "replicas"))
	w.limitsAre("blue", `{}`)
	require.Equal(t, 2, w.images()["blue"])
}
