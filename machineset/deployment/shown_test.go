package deployment_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// Whoever narrows the cache of Machines would otherwise lose all of them at once: places without a Machine are the first to go.
func TestADeploymentDoesNotTakeMachinesThatTheCacheLeavesOutForMissing(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]string{"rolling": "RollingUpdate", "all at once": "Recreate"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).live()
			stop := w.run()
			d := w.deployment(2, fake.WithField(strategy, "spec", "rollout", "strategy", "type"))
			w.rolled(d, "blue", 2)
			stop()
			mgr := w.Manager("narrowed", ctrl.Options{Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
				object(w.kinds.Machine.GVK, ""): {Label: labels.SelectorFromSet(labels.Set{"team": "ours"})},
			}}})
			_, err := deployment.SetupWithManager(t.Context(), mgr, w.kinds, deployment.Options{StatusDelay: 20 * time.Millisecond})
			require.NoError(t, err)
			stop = w.start(mgr)
			w.change(d, template("green"))
			machines := w.list(w.kinds.Machine.GVK)
			w.Says(d, deployment.ConditionRollingOut, "", min(machines[0].GetName(), machines[1].GetName())+" exists, and the cache does not show it")
			w.Never("a Machine of the old template goes", 300*time.Millisecond, func() string {
				if n := w.images()["blue"]; n != 2 {
					return fmt.Sprint(n, " are left")
				}
				return ""
			})
			stop()
			w.run()
			w.rolled(d, "green", 2)
		})
	}
}
