package deployment_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// counting are the systems whose deployments have the numbers in their status that say how far a rollout is.
func counting(t *testing.T) map[string]system {
	t.Helper()
	all := systems(t)
	maps.DeleteFunc(all, func(_ string, s system) bool { return s.scheme != nil })
	return all
}

// A restart is another annotation of the template in two of the systems, which have no field for it.
func TestARestartThatTheControllerHasYetToSeeIsNotDone(t *testing.T) {
	t.Parallel()
	for name, s := range counting(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, s.kinds)
			stop := w.live().run()
			d := w.deploymentOf(s, 2)
			key := client.ObjectKeyFromObject(d)
			w.done(deployment.Commands{Client: w.client, Kinds: s.kinds}, key)
			stop()
			// Sets are as old as the second says in which they were created: it has to be over.
			clock := clocktesting.NewFakePassiveClock(time.Now().Add(2 * time.Second))
			commands := deployment.Commands{Client: w.client, Kinds: s.kinds, Clock: clock}
			old := w.uids()
			if err := commands.Restart(t.Context(), key); name == "Cluster API v1beta1" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "set the annotation kubectl.kubernetes.io/restartedAt in the metadata of spec.template")
				w.change(d, fake.WithField("now", "spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"))
			}
			progress, err := commands.Status(t.Context(), key)
			require.NoError(t, err)
			require.False(t, progress.Done, progress)
			require.NoError(t, commands.Pause(t.Context(), key))
			progress, err = commands.Status(t.Context(), key)
			require.NoError(t, err)
			require.False(t, progress.Done, progress)
			require.NoError(t, commands.Resume(t.Context(), key))

			w.run()
			w.done(commands, key)
			for _, uid := range w.uids() {
				require.NotContains(t, old, uid, "a Machine of before is left when the rollout is said to be done")
			}
		})
	}
}

// done waits until Commands say that a rollout is done.
func (w *world) done(c deployment.Commands, key types.NamespacedName) {
	w.t.Helper()
	w.eventually("the rollout to be done", func() string {
		progress, err := c.Status(w.t.Context(), key)
		require.NoError(w.t, err)
		if !progress.Done {
			return progress.Message
		}
		return ""
	})
}

func TestOldSetsWithoutALimitAreKeptAsTheirSystemKeepsThem(t *testing.T) {
	t.Parallel()
	for name, s := range counting(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, s.kinds)
			w.live().run()
			d := w.deploymentOf(s, 1)
			commands := deployment.Commands{Client: w.client, Kinds: s.kinds}
			for _, made := range []string{"second", "third", "fourth"} {
				w.done(commands, client.ObjectKeyFromObject(d))
				w.change(d, fake.WithField(made, append([]string{"spec", "template", "spec"}, s.change...)...))
			}
			want := map[bool]int{true: 4, false: 2}[name == "Gardener"]
			w.eventually(fmt.Sprintf("have %d sets", want), func() string {
				progress, err := commands.Status(t.Context(), client.ObjectKeyFromObject(d))
				require.NoError(t, err)
				if sets := w.describeSets(); !progress.Done || len(sets) != want {
					return fmt.Sprint(progress.Message, sets)
				}
				return ""
			})
			history, err := commands.History(t.Context(), client.ObjectKeyFromObject(d))
			require.NoError(t, err)
			require.True(t, slices.IsSortedFunc(history, func(a, b deployment.Revision) int { return int(a.Number - b.Number) }))
			require.Len(t, history, want)
		})
	}
}
