package deployment_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

func TestARefusedScaleIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	var refuses atomic.Bool
	w.patches = func(obj client.Object, body string) error {
		if refuses.Load() && strings.Contains(body, `"replicas":3`) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "machinesets"}, obj.GetName(), fmt.Errorf("three are too many"))
		}
		return nil
	}
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	refuses.Store(true)
	w.Change(d, fake.WithField(int64(3), "spec", "replicas"))
	w.AwaitCondition(d, deployment.ConditionRollingOut, deployment.ReasonRollingOut, "scale MachineSet "+w.setsNow()[0].GetName()+" to 3",
		"three are too many")
	refuses.Store(false)
	w.rolled(d, "blue", 3)
}

// Rule: kubectl rollout history, and undo, which brings the cause of a revision back.
func TestEachRevisionKeepsItsChangeCause(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	cause := func(text string) fake.Option { return annotated(deployment.ChangeCauseAnnotation, text) }
	commands := deployment.Commands{Client: w.Client, Kinds: w.kinds}
	d := w.deployment(1, cause("first"), fake.WithField(int64(9), "spec", "revisionHistoryLimit"))
	history := func(want ...string) {
		t.Helper()
		w.until("the history", func() bool {
			all, err := commands.History(t.Context(), client.ObjectKeyFromObject(d))
			require.NoError(t, err)
			var got []string
			for _, one := range all {
				got = append(got, fmt.Sprint(one.Number, " ", one.Cause)+map[bool]string{true: " *"}[one.Current])
			}
			return slices.Equal(got, want)
		})
	}
	w.rolled(d, "blue", 1)
	history("1 first *")
	w.Change(d, template("green"), cause("second"))
	w.rolled(d, "green", 1)
	history("1 first", "2 second *")
	w.Change(d, cause("second, as I meant it"))
	history("1 first", "2 second, as I meant it *")
	_, err := commands.Undo(t.Context(), client.ObjectKeyFromObject(d), 0)
	require.NoError(t, err)
	w.rolled(d, "blue", 1)
	history("2 second, as I meant it", "3 first *")
	require.Equal(t, "first", w.Get(d).GetAnnotations()[deployment.ChangeCauseAnnotation])
	w.Change(d, template("green"), withoutAnnotation(deployment.ChangeCauseAnnotation))
	w.rolled(d, "green", 1)
	history("3 first", "4  *")
	_, err = commands.Undo(t.Context(), client.ObjectKeyFromObject(d), 7)
	require.ErrorIs(t, err, deployment.ErrRevision)
}

func TestADeploymentInDeletionNamesTheSetsThatAreLeft(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 1)
	set := w.setsNow()[0]
	w.Change(&set, func(u *unstructured.Unstructured) { u.SetFinalizers(append(u.GetFinalizers(), "example.com/slow")) })
	require.NoError(t, w.Client.Delete(t.Context(), d))
	w.AwaitCondition(d, contract.ConditionDeleting, contract.ReasonDeleting, "Deleting 1 MachineSets", "* "+set.GetName())
	w.Change(&set, func(u *unstructured.Unstructured) {
		u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == "example.com/slow" }))
	})
	w.Gone(d, &set)
}

func TestADeploymentWithoutReplicasKeepsWhatItHas(t *testing.T) {
	without := func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "replicas") }
	tests := map[string]struct {
		options []fake.Option
		begins  int
	}{
		"a new one begins with 1":             {nil, 1},
		"or with the autoscaler's minimum":    {[]fake.Option{annotated(contract.MinSizeAnnotation, "2")}, 2},
		"which may be 0":                      {[]fake.Option{annotated(contract.MinSizeAnnotation, "0")}, 0},
		"a minimum that is no number is none": {[]fake.Option{annotated(contract.MinSizeAnnotation, "few")}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).live()
			w.run()
			d := w.deployment(9, append(test.options, without)...)
			w.until("its first number", func() bool {
				n, found, _ := unstructured.NestedInt64(w.Get(d).Object, "spec", "replicas")
				return found && int(n) == test.begins
			})
			w.rolled(d, "blue", test.begins)
			w.Change(d, fake.WithField(int64(3), "spec", "replicas"))
			w.rolled(d, "blue", 3)
			before := w.uids()
			w.Change(d, without)
			w.Eventually("its present number", func() string {
				n, found, _ := unstructured.NestedInt64(w.Get(d).Object, "spec", "replicas")
				return map[bool]string{false: fmt.Sprint(n, found)}[found && n == 3]
			})
			w.settled(d)
			require.Equal(t, before, w.uids())
			w.Change(d, without, template("green"))
			w.rolled(d, "green", 3)
		})
	}
}

// strategies are those that would remove two of three Machines, or all, before the first new one is there.
func strategies() map[string][]fake.Option {
	return map[string][]fake.Option{
		"Recreate": {annotated(contract.RolloutTypeAnnotation, "Recreate")},
		"RollingUpdate": {
			fake.WithField(int64(0), "spec", "rollout", "strategy", "rollingUpdate", "maxSurge"),
			fake.WithField(int64(2), "spec", "rollout", "strategy", "rollingUpdate", "maxUnavailable"),
		},
	}
}

func TestARolloutToASetThatCannotCreateTakesNoMachineAway(t *testing.T) {
	tests := map[string]struct {
		breaks, mends func(w *world, d *unstructured.Unstructured)
		waits         string
	}{
		"its template is gone": {
			breaks: func(w *world, _ *unstructured.Unstructured) {
				require.NoError(w.t, w.Client.Delete(w.t.Context(), testenv.Object(infraTemplate(), "green")))
			},
			mends: func(w *world, _ *unstructured.Unstructured) {
				u := testenv.Object(infraTemplate(), "green")
				u.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"image": "green"}}}
				w.Create(u)
			},
			waits: infraTemplate().Kind + " does not exist",
		},
		"its names are invalid": {
			breaks: func(w *world, d *unstructured.Unstructured) {
				w.Change(d, fake.WithField("{{ .random }}_", "spec", "machineNaming", "template"))
			},
			mends: func(w *world, d *unstructured.Unstructured) {
				w.Change(d, fake.WithField("m-{{ .random }}", "spec", "machineNaming", "template"))
			},
			waits: "naming template",
		},
	}
	for strategy, options := range strategies() {
		for name, test := range tests {
			t.Run(strategy+", "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t).live()
				w.run()
				d := w.deployment(3, options...)
				w.Change(d, fake.WithField(int64(5), "spec", "revisionHistoryLimit"))
				w.rolled(d, "blue", 3)
				w.rollTo(d, "green", 3)
				w.rollTo(d, "blue", 3)
				before := w.uids()
				test.breaks(w, d)
				w.Eventually("the old set to find out", func() string {
					for _, set := range w.setsNow() {
						if imageOf(&set) != "green" {
							continue
						}
						if c := testenv.Condition(&set, contract.ConditionScalingUp); !strings.Contains(c.Message, test.waits) {
							return c.Message
						}
					}
					return ""
				})
				w.Change(d, template("green"))
				w.blocked(d, test.waits)
				w.Quiet("deployments", 300*time.Millisecond)
				require.Equal(t, before, w.uids(), "nothing goes")
				w.Change(d, fake.WithField(int64(2), "spec", "replicas"))
				w.has(map[string]int{"blue": 2})
				test.mends(w, d)
				w.rolled(d, "green", 2)
			})
		}
	}
}

func TestARolloutReplacesNoPausedMachine(t *testing.T) {
	t.Parallel()
	for strategy, options := range strategies() {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w, d := rolledOut(t, 3, options...)
			one := w.machinesNow()[1]
			w.Change(&one, annotated(contract.PausedAnnotation, ""))
			w.Change(d, template("green"))
			w.blocked(d, one.GetName()+" to be resumed")
			w.until("the others to go", func() bool { return w.images()["blue"] == 1 })
			require.Nil(t, w.Get(&one).GetDeletionTimestamp())
			w.Change(&one, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
			w.rolled(d, "green", 3)
		})
	}
}

func TestAnOldSetThatChangesWhileItIsDeletedStaysUntilItIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorldWithLimits(t).live()
	var refused atomic.Int32
	w.deletes = func(obj client.Object, pass func() error) error {
		if refused.Load() > 0 {
			return pass()
		}
		old := testenv.Object(w.kinds.Set.GVK, obj.GetName())
		w.Change(old, annotated("example.com/keep", "a while"))
		err := pass()
		if !apierrors.IsConflict(err) || w.Get(old) == nil {
			t.Errorf("the set was deleted: %v", err)
		}
		refused.Add(1)
		return err
	}
	w.run()
	d := w.deployment(1, historyLimit(0))
	w.rolled(d, "blue", 1)
	w.rollTo(d, "green", 1)
	w.until("the old set to go", func() bool { return len(w.setsNow()) == 1 })
	require.Equal(t, int32(1), refused.Load())
}
