package deployment_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
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
	w.change(d, fake.WithField(int64(3), "spec", "replicas"))
	w.Says(d, deployment.ConditionRollingOut, deployment.ReasonRollingOut, "scale MachineSet "+w.setsNow()[0].GetName()+" to 3",
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
	commands := deployment.Commands{Client: w.client, Kinds: w.kinds}
	d := w.deployment(1, cause("first"), fake.WithField(int64(9), "spec", "revisionHistoryLimit"))
	history := func(want ...string) {
		t.Helper()
		w.eventually("the history", func() string {
			all, err := commands.History(t.Context(), client.ObjectKeyFromObject(d))
			require.NoError(t, err)
			var got []string
			for _, one := range all {
				got = append(got, fmt.Sprint(one.Number, " ", one.Cause))
			}
			if !slices.Equal(got, want) {
				return fmt.Sprint(got)
			}
			return ""
		})
	}
	w.rolled(d, "blue", 1)
	history("1 first")
	w.change(d, template("green"), cause("second"))
	w.rolled(d, "green", 1)
	history("1 first", "2 second")
	w.change(d, cause("second, as I meant it"))
	history("1 first", "2 second, as I meant it")
	_, err := commands.Undo(t.Context(), client.ObjectKeyFromObject(d), 0)
	require.NoError(t, err)
	w.rolled(d, "blue", 1)
	history("2 second, as I meant it", "3 first")
	require.Equal(t, "first", w.get(d).GetAnnotations()[deployment.ChangeCauseAnnotation])
	w.change(d, template("green"), func(u *unstructured.Unstructured) {
		all := u.GetAnnotations()
		delete(all, deployment.ChangeCauseAnnotation)
		u.SetAnnotations(all)
	})
	w.rolled(d, "green", 1)
	history("3 first", "4 ")
}

func TestADeploymentInDeletionNamesTheSetsThatAreLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(1)
	w.rolled(d, "blue", 1)
	set := w.setsNow()[0]
	w.change(&set, func(u *unstructured.Unstructured) { u.SetFinalizers(append(u.GetFinalizers(), "example.com/slow")) })
	require.NoError(t, w.client.Delete(t.Context(), d))
	w.Says(d, contract.ConditionDeleting, contract.ReasonDeleting, "Deleting 1 MachineSets", "* "+set.GetName())
	w.change(&set, func(u *unstructured.Unstructured) {
		u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == "example.com/slow" }))
	})
	w.Gone(d, &set)
}
