package deployment_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestADeploymentRollsFromOneTemplateToTheNextWithinItsBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(4)
	w.rolled(d, "blue", 4)
	stop := w.watch()
	w.change(d, template("green"))
	w.rolled(d, "green", 4)
	stop()
	require.LessOrEqual(t, w.most, 5, "maxSurge is 1")
	require.GreaterOrEqual(t, w.least, 4, "maxUnavailable is 0")
	require.Equal(t, "2", w.get(d).GetAnnotations()[contract.RevisionAnnotation])
	for _, m := range w.list(w.kinds.Machine.GVK) {
		require.Equal(t, "workers", m.GetLabels()[contract.DeploymentNameLabel])
		require.NotContains(t, m.GetAnnotations(), scale.DeleteAnnotation)
	}
}

func TestARollbackGoesBackToTheSetThatThereWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	first := w.setsNow()[0].GetName()
	w.change(d, template("green"))
	w.rolled(d, "green", 2)
	commands := deployment.Commands{Client: w.client, Kinds: w.kinds}
	key := types.NamespacedName{Namespace: "default", Name: "workers"}
	history, err := commands.History(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, history, 2)
	require.Equal(t, []any{first, int64(1), int64(2), true},
		[]any{history[0].Set, history[0].Number, history[1].Number, history[1].Current})
	done, err := commands.Undo(t.Context(), key, 0)
	require.NoError(t, err)
	require.Equal(t, first, done.Set)
	w.rolled(d, "blue", 2)
	w.eventually("the revision to be a new one", func() string {
		if got := w.get(d).GetAnnotations()[contract.RevisionAnnotation]; got != "3" {
			return got
		}
		return ""
	})
	require.Len(t, w.setsNow(), 2, "no third set was made")
	_, err = commands.Undo(t.Context(), key, 7)
	require.ErrorIs(t, err, deployment.ErrRevision)
}

func TestAPausedRolloutKeepsItsMachinesAndFollowsTheDesiredNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	commands := deployment.Commands{Client: w.client, Kinds: w.kinds}
	key := types.NamespacedName{Namespace: "default", Name: "workers"}
	require.NoError(t, commands.Pause(t.Context(), key))
	w.change(d, template("green"), fake.WithField(int64(3), "spec", "replicas"))
	w.eventually("the set to grow", func() string {
		if n := w.images()["blue"]; n != 3 {
			return w.condition(d, "RollingOut").Message
		}
		return ""
	})
	require.Len(t, w.setsNow(), 1)
	require.ErrorContains(t, commands.Restart(t.Context(), key), "the rollout is paused: resume it first")
	require.NoError(t, commands.Resume(t.Context(), key))
	w.rolled(d, "green", 3)
}

func TestARestartReplacesAllMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	before := map[types.UID]bool{}
	for _, m := range w.list(w.kinds.Machine.GVK) {
		before[m.GetUID()] = true
	}
	commands := deployment.Commands{Client: w.client, Kinds: w.kinds, Clock: clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour))}
	key := types.NamespacedName{Namespace: "default", Name: "workers"}
	require.NoError(t, commands.Restart(t.Context(), key))
	now := commands
	now.Clock = nil
	require.ErrorContains(t, now.Restart(t.Context(), key), "is planned for")
	made := w.setsNow()[0].GetCreationTimestamp().Add(time.Second).UTC()
	w.change(d, fake.WithField(made.Format(time.RFC3339), "spec", "rollout", "after"))
	w.eventually("other Machines", func() string {
		machines := w.list(w.kinds.Machine.GVK)
		for _, m := range machines {
			if before[m.GetUID()] {
				return "an old one is there"
			}
		}
		if len(machines) != 2 {
			return "there are not two"
		}
		return ""
	})
}

func TestADeploymentThatIsDeletedTakesItsSetsAndMachinesWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	require.NoError(t, w.client.Delete(t.Context(), d))
	w.eventually("all to go", func() string {
		if w.get(d) != nil || len(w.setsNow()) > 0 || len(w.list(w.kinds.Machine.GVK)) > 0 {
			return "something is left"
		}
		return ""
	})
}

func TestTheMarkedMachineGoesWhicheverSetHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(3)
	w.rolled(d, "blue", 3)
	marked := w.list(w.kinds.Machine.GVK)[1]
	w.change(&marked, func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{scale.DeleteAnnotation: "now"}) })
	w.change(d, fake.WithField(int64(2), "spec", "replicas"))
	w.rolled(d, "blue", 2)
	require.Nil(t, w.get(&marked))
}

func TestOldSetsBeyondTheHistoryLimitAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorldWithLimits(t).live()
	w.keepsNoHistory()
}

// keepsNoHistory rolls a deployment out that keeps no old sets, and waits until the old one has gone.
func (w *world) keepsNoHistory() {
	w.t.Helper()
	w.run()
	d := w.deployment(1, historyLimit(0))
	w.rolled(d, "blue", 1)
	w.change(d, template("green"))
	w.rolled(d, "green", 1)
	w.eventually("the old set to go", func() string {
		if sets := w.describeSets(); len(sets) != 1 {
			return sets[0]
		}
		return ""
	})
}

func TestUpToDate(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2, fake.WithField("OnDelete", "spec", "rollout", "strategy", "type"))
	all := func(status, reason string) {
		t.Helper()
		w.eventually("the Machines to be "+reason, func() string {
			for _, m := range w.list(w.kinds.Machine.GVK) {
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
	w.change(d, fake.WithField("v9.9.9", "spec", "template", "spec", "version"))
	all("False", contract.ReasonNotUpToDate)
	w.change(d, fake.WithField("v1.36.3", "spec", "template", "spec", "version"))
	all("True", contract.ReasonUpToDate) // by the deployment: the stand-in of a Machine's reconciler leaves what there is
}
