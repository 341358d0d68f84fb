package deployment_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
)

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
				require.NoError(w.t, w.client.Delete(w.t.Context(), object(infraTemplate(), "green")))
			},
			mends: func(w *world, _ *unstructured.Unstructured) {
				u := object(infraTemplate(), "green")
				u.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"image": "green"}}}
				require.NoError(w.t, w.client.Create(w.t.Context(), u))
			},
			waits: infraTemplate().Kind + " does not exist",
		},
		"its names are invalid": {
			breaks: func(w *world, d *unstructured.Unstructured) {
				w.change(d, fake.WithField("{{ .random }}_", "spec", "machineNaming", "template"))
			},
			mends: func(w *world, d *unstructured.Unstructured) {
				w.change(d, fake.WithField("m-{{ .random }}", "spec", "machineNaming", "template"))
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
				w.change(d, fake.WithField(int64(5), "spec", "revisionHistoryLimit"))
				w.rolled(d, "blue", 3)
				w.change(d, template("green"))
				w.rolled(d, "green", 3)
				w.change(d, template("blue"))
				w.rolled(d, "blue", 3)
				before := w.uids()
				test.breaks(w, d)
				w.eventually("the old set to find out", func() string {
					for _, set := range w.setsNow() {
						if name, _, _ := unstructured.NestedString(set.Object, "spec", "template", "spec", "infrastructureRef", "name"); name != "green" {
							continue
						}
						if c := testenv.Condition(&set, contract.ConditionScalingUp); !strings.Contains(c.Message, test.waits) {
							return c.Message
						}
					}
					return ""
				})
				w.change(d, template("green"))
				w.blocked(d, test.waits)
				w.Quiet("deployments", 300*time.Millisecond)
				require.Equal(t, before, w.uids(), "nothing goes")
				w.change(d, fake.WithField(int64(2), "spec", "replicas"))
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
			w := newWorld(t).live()
			w.run()
			d := w.deployment(3, options...)
			w.rolled(d, "blue", 3)
			one := w.list(w.kinds.Machine.GVK)[1]
			w.change(&one, annotated(contract.PausedAnnotation, ""))
			w.change(d, template("green"))
			w.blocked(d, one.GetName()+" to be resumed")
			w.eventually("the others to go", func() string {
				if n := w.images()["blue"]; n != 1 {
					return w.condition(d, "RollingOut").Message
				}
				return ""
			})
			require.Nil(t, w.get(&one).GetDeletionTimestamp())
			w.change(&one, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
			w.rolled(d, "green", 3)
		})
	}
}
