package deployment_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

func TestRecognition(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		lacks string
		strip func(*unstructured.Unstructured)
	}{
		{"metadata.labels", func(u *unstructured.Unstructured) { u.SetLabels(nil) }},
		{"metadata.annotations", func(u *unstructured.Unstructured) { u.SetAnnotations(nil) }},
		{"metadata.ownerReferences", func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) }},
		{"the name of its Cluster", func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "clusterName") }},
	} {
		t.Run("a set that is stored without "+tc.lacks+" is no reason for another one", func(t *testing.T) {
			t.Parallel()
			kinds := clusterAPI()
			var mended atomic.Bool
			w := newWorldWith(t, kinds, fake.Options{Admit: func(u *unstructured.Unstructured) {
				if u.GetKind() == kinds.Set.GVK.Kind && !mended.Load() {
					tc.strip(u)
				}
			}}, fake.AllLoops())
			d := w.deployment(2)
			for run := range 2 {
				stop := w.run()
				w.AwaitCondition(d, deployment.ConditionRollingOut, "", tc.lacks)
				for n := range 10 {
					w.Change(d, fake.WithAnnotations(map[string]string{"touched": fmt.Sprint(run, n)}))
					time.Sleep(10 * time.Millisecond)
				}
				require.Len(t, w.setsNow(), 1, "of process %d", run)
				stop()
			}
			mended.Store(true)
			require.NoError(t, w.Client.Delete(t.Context(), &w.setsNow()[0]))
			w.live().run()
			w.rolled(d, "blue", 2)
		})
	}
	for name, forget := range map[string]func(*contract.MachineSetSeed, *unstructured.Unstructured){
		"metadata.labels":          func(s *contract.MachineSetSeed, _ *unstructured.Unstructured) { s.Labels = nil },
		"metadata.annotations":     func(s *contract.MachineSetSeed, _ *unstructured.Unstructured) { s.Annotations = nil },
		"metadata.ownerReferences": func(s *contract.MachineSetSeed, _ *unstructured.Unstructured) { s.Owners = nil },
		"the name of its Cluster": func(_ *contract.MachineSetSeed, d *unstructured.Unstructured) {
			unstructured.RemoveNestedField(d.Object, "spec", "clusterName")
		},
	} {
		t.Run("a set that its maker makes without "+name+" is not created", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.kinds.SetMaker = changedMaker{w.kinds.SetMaker, forget}
			d := w.deployment(2)
			mgr := w.Manager("deployments", ctrl.Options{})
			_, err := deployment.SetupWithManager(t.Context(), mgr, w.kinds, deployment.Options{
				Options: pass.Options{StatusDelay: 20 * time.Millisecond},
			})
			if name != "the name of its Cluster" {
				require.ErrorContains(t, err, name)
				return
			}
			require.NoError(t, err, "only a deployment with a Cluster can show it")
			w.Run(mgr)
			w.AwaitCondition(d, deployment.ConditionRollingOut, "", "without "+name)
			require.Empty(t, w.setsNow())
		})
	}
	t.Run("a deployment whose Cluster is changed keeps its sets and makes none", func(t *testing.T) {
		t.Parallel()
		w, d := rolledOut(t, 2)
		set := w.setsNow()[0]
		w.Change(d, fake.WithField("other", "spec", "clusterName"), fake.WithField("other", "spec", "template", "spec", "clusterName"),
			template("green"))
		w.until("the condition to name it", func() bool {
			const says = `has the Cluster "other" and had "demo"`
			return strings.Contains(w.condition(d, deployment.ConditionRollingOut).Message, says)
		})
		w.settled(d)
		require.Equal(t, map[string]int{"blue": 2}, w.images())
		require.Len(t, w.setsNow(), 1)
		require.Equal(t, set.GetUID(), w.setsNow()[0].GetUID())
		require.Equal(t, "demo", w.setsNow()[0].GetLabels()[contract.ClusterNameLabel])
		w.Change(d, fake.WithField("demo", "spec", "clusterName"), fake.WithField("demo", "spec", "template", "spec", "clusterName"))
		w.rolled(d, "green", 2)
	})
}

// changedMaker is a Maker that forgets something.
type changedMaker struct {
	contract.MachineSetMaker

	forget func(*contract.MachineSetSeed, *unstructured.Unstructured)
}

func (m changedMaker) NewSet(d contract.Object, seed contract.MachineSetSeed) (contract.Object, error) {
	changed, _ := d.DeepCopyObject().(*unstructured.Unstructured)
	m.forget(&seed, changed)
	return m.MachineSetMaker.NewSet(changed, seed)
}
