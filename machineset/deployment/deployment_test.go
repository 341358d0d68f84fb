package deployment_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestAPausedRolloutKeepsItsMachinesAndFollowsTheDesiredNumber(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	commands := deployment.Commands{Client: w.Client, Kinds: w.kinds}
	key := types.NamespacedName{Namespace: "default", Name: "workers"}
	require.NoError(t, commands.Pause(t.Context(), key))
	w.Change(d, template("green"), fake.WithField(int64(3), "spec", "replicas"))
	w.until("the set to grow", func() bool { return w.images()["blue"] == 3 })
	require.Len(t, w.setsNow(), 1)
	require.ErrorContains(t, commands.Restart(t.Context(), key), "the rollout is paused: resume it first")
	require.NoError(t, commands.Resume(t.Context(), key))
	w.rolled(d, "green", 3)
}

func TestUpToDate(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2, fake.WithField("OnDelete", "spec", "rollout", "strategy", "type"))
	all := func(status, reason string) {
		t.Helper()
		w.Eventually("the Machines to be "+reason, func() string {
			for _, m := range w.machinesNow() {
				c, _, err := contract.ConditionsAt("status", "conditions").Find(m.Object, contract.ConditionUpToDate)
				if err != nil || string(c.Status) != status || c.Reason != reason {
					return fmt.Sprintf("%s: %+v, %v", m.GetName(), c, err)
				}
			}
			return ""
		})
	}
	w.rolled(d, "blue", 2)
	all("True", contract.ReasonUpToDate)
	w.Change(d, fake.WithField("v9.9.9", "spec", "template", "spec", "version"))
	all("False", contract.ReasonNotUpToDate)
	w.Change(d, fake.WithField("v1.36.3", "spec", "template", "spec", "version"))
	all("True", contract.ReasonUpToDate) // by the deployment: the stand-in of a Machine's reconciler leaves what there is
}

// ahead is a clock that is ahead of that of the API server.
type ahead struct {
	clock.RealClock

	by time.Duration
}

func (a ahead) Now() time.Time { return a.RealClock.Now().Add(a.by) }

// runAhead starts the reconciler under test with a clock that is ahead.
func (w *world) runAhead(by time.Duration) (stop func()) {
	w.t.Helper()
	mgr := w.manager("deployments")
	options := deployment.Options{Options: pass.Options{StatusDelay: 20 * time.Millisecond, Clock: ahead{by: by}}}
	_, err := deployment.SetupWithManager(w.t.Context(), mgr, w.kinds, options)
	require.NoError(w.t, err)
	return w.Run(mgr)
}

// restarted waits until a deployment has so many sets, whose last one has all Machines, and returns that one.
func (w *world) restarted(d *unstructured.Unstructured, sets int) *unstructured.Unstructured {
	w.t.Helper()
	byRevision := func(a, b unstructured.Unstructured) int { return int(revision(&a) - revision(&b)) }
	w.Eventually(fmt.Sprintf("have %d sets", sets), func() string {
		all := w.describeSets()
		last := slices.MaxFunc(w.setsNow(), byRevision)
		if len(all) < sets || testenv.Number(&last, "spec", "replicas") != 2 || len(w.uids()) != 2 {
			return fmt.Sprint(all)
		}
		if c := w.condition(d, deployment.ConditionRollingOut); c.Status != metav1.ConditionFalse {
			return c.Message
		}
		return ""
	})
	w.settled(d)
	require.Len(w.t, w.setsNow(), sets)
	return new(slices.MaxFunc(w.setsNow(), byRevision))
}

func revision(set *unstructured.Unstructured) int64 {
	n, err := strconv.ParseInt(set.GetAnnotations()[contract.RevisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// The clock of the reconciler says that the time of a restart has come when that of the API server, which dates the sets, does not.
func TestARestartMakesOneSetWhateverTheClockOfTheAPIServerSays(t *testing.T) {
	t.Parallel()
	w := newWorldWithLimits(t).live()
	stop := w.runAhead(2 * time.Hour)
	d := w.deployment(2, historyLimit(10))
	w.rolled(d, "blue", 2)
	before, key := w.uids(), client.ObjectKeyFromObject(d)
	commands := deployment.Commands{Client: w.Client, Kinds: w.kinds}
	after := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	w.Change(d, fake.WithField(after.Format(time.RFC3339), "spec", "rollout", "after"))
	made := w.restarted(d, 2)
	require.True(t, after.Equal(scale.ReadStamp(made.GetAnnotations()).After))
	machines := w.uids()
	for _, uid := range machines {
		require.NotContains(t, before, uid)
	}
	require.ErrorContains(t, commands.Restart(t.Context(), key), "is planned for")
	progress, err := commands.Status(t.Context(), key)
	require.NoError(t, err)
	require.True(t, progress.Done, progress)

	// A leader whose clock says that it has yet to come does not take it back.
	stop()
	stop = w.run()
	require.Equal(t, made.GetName(), w.restarted(d, 2).GetName())
	require.Equal(t, machines, w.uids())
	stop()

	// A way back to the template finds the set again, by whatever clock.
	w.runAhead(2 * time.Hour)
	w.rollTo(d, "green", 2)
	w.rollTo(d, "blue", 2)
	require.Equal(t, made.GetName(), w.restarted(d, 3).GetName())

	// Where a person has removed what the set was made for, its creation counts, and one other set is made.
	w.Change(made, withoutAnnotation(scale.StampAnnotation))
	require.NotEqual(t, made.GetName(), w.restarted(d, 4).GetName())
}
