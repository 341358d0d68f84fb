package machineset_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
)

// A set of which the Machines could not be recognized made 100 of 2, and left 102 when it was deleted.
func TestRecognition(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, lacks string
		strip       func(*unstructured.Unstructured)
	}{
		{"all labels", "metadata.labels", func(u *unstructured.Unstructured) { u.SetLabels(nil) }},
		{"one label", "metadata.labels", func(u *unstructured.Unstructured) {
			labels := u.GetLabels()
			delete(labels, "pool")
			u.SetLabels(labels)
		}},
		{"annotations", "metadata.annotations", func(u *unstructured.Unstructured) { u.SetAnnotations(nil) }},
		{"owners", "metadata.ownerReferences", func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) }},
		{"the field of its Cluster", "the name of its Cluster", func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "spec", "clusterName")
		}},
	} {
		t.Run("a Machine that is stored without "+tc.name+" is no reason for another one", func(t *testing.T) {
			t.Parallel()
			var mended atomic.Bool
			w := newWorld(t, fake.Options{Admit: func(u *unstructured.Unstructured) {
				if u.GetKind() == fake.MachineGVK().Kind && !mended.Load() {
					tc.strip(u)
				}
			}})
			set := w.set("workers", 2)
			w.Create(set)
			for run := range 2 {
				stop := w.run(machineset.Options{})
				w.conditionSays(set, contract.ConditionScalingUp, tc.lacks)
				w.touches(set)
				require.Len(t, w.machines(), 1, "of process %d", run)
				stop()
			}
			mended.Store(true)
			require.NoError(t, w.Client.Delete(t.Context(), &w.machines()[0]))
			w.live().run(machineset.Options{})
			w.has(set, 2)
		})
	}
	t.Run("a Machine that is stored without labels and owner is no reason for another one of this process", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, fake.Options{Admit: func(u *unstructured.Unstructured) {
			if u.GetKind() == fake.MachineGVK().Kind {
				u.SetLabels(nil)
				u.SetOwnerReferences(nil)
			}
		}})
		set := w.set("workers", 2)
		w.Create(set)
		w.run(machineset.Options{})
		w.conditionSays(set, contract.ConditionScalingUp, "metadata.labels, metadata.ownerReferences")
		w.touches(set)
		time.Sleep(2 * time.Second) // what has failed is tried again after one
		require.Len(t, w.machines(), 1)
	})
	t.Run("the parts of a Machine that is stored without labels are not made again", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, fake.Options{Admit: func(u *unstructured.Unstructured) {
			if u.GetKind() == fake.MachineGVK().Kind {
				u.SetLabels(nil)
			}
		}})
		set := w.set("workers", 2)
		w.Create(set)
		w.run(machineset.Options{})
		w.conditionSays(set, contract.ConditionScalingUp, "metadata.labels")
		part := w.List(infraGVK())[0]
		require.NoError(t, w.Client.Delete(t.Context(), &part))
		w.touches(set)
		require.Empty(t, w.List(infraGVK()), "its provider would make a second instance")
	})
	for name, forget := range map[string]func(*contract.MachineSeed, *unstructured.Unstructured){
		"metadata.labels":          func(s *contract.MachineSeed, _ *unstructured.Unstructured) { s.Labels = nil },
		"metadata.annotations":     func(s *contract.MachineSeed, _ *unstructured.Unstructured) { s.Annotations = nil },
		"metadata.ownerReferences": func(s *contract.MachineSeed, _ *unstructured.Unstructured) { s.Owners = nil },
		"metadata.namespace":       func(s *contract.MachineSeed, _ *unstructured.Unstructured) { s.Key.Namespace = "" },
		"the name of its Cluster": func(_ *contract.MachineSeed, set *unstructured.Unstructured) {
			unstructured.RemoveNestedField(set.Object, "spec", "clusterName")
			unstructured.RemoveNestedField(set.Object, "spec", "template", "spec", "clusterName")
		},
	} {
		t.Run("a Machine that its maker makes without "+name+" is not created", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake.Options{})
			w.kinds.Maker = changedMaker{w.kinds.Maker, forget}
			set := w.set("workers", 2)
			w.Create(set)
			mgr := w.Manager(userAgent, ctrl.Options{})
			_, err := machineset.SetupWithManager(t.Context(), mgr, w.kinds, machineset.Options{
				Options: pass.Options{StatusDelay: 50 * time.Millisecond},
			})
			if name != "the name of its Cluster" {
				require.ErrorContains(t, err, name, "a Machine of an empty set shows it")
				return
			}
			require.NoError(t, err, "only a set with a Cluster can show it")
			w.Run(mgr)
			w.conditionSays(set, contract.ConditionScalingUp, "Kinds.Maker made Machine default/workers-")
			w.conditionSays(set, contract.ConditionScalingUp, "without "+name)
			require.Empty(t, w.machines())
		})
	}
	t.Run("a set whose Cluster is changed keeps its Machines and creates none", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, fake.Options{}).live()
		stop := w.runWith(ctrl.Options{}, machineset.Options{})
		set := w.set("workers", 2)
		w.Create(set)
		w.has(set, 2)
		before := w.uidsOf()
		w.Change(set, func(u *unstructured.Unstructured) {
			fake.WithField("other", "spec", "clusterName")(u)
			fake.WithField("other", "spec", "template", "spec", "clusterName")(u)
			fake.WithField(int64(3), "spec", "replicas")(u)
		})
		const says = `MachineSet default/workers has the Cluster "other" and had "demo": the name of a Cluster cannot be changed: change it back`
		w.conditionSays(set, contract.ConditionScalingUp, says)
		stop()
		stop = w.run(machineset.Options{})
		w.Change(set, annotated("touched", "x"))
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, before, w.uidsOf(), "none is released, and none created")
		for _, m := range w.machines() {
			require.Equal(t, "demo", m.GetLabels()[contract.ClusterNameLabel])
		}
		w.Change(set, func(u *unstructured.Unstructured) {
			fake.WithField("demo", "spec", "clusterName")(u)
			fake.WithField("demo", "spec", "template", "spec", "clusterName")(u)
		})
		w.has(set, 3)
		stop()
	})
}

// touches writes a set several times, each of which makes a pass.
func (w *world) touches(set *unstructured.Unstructured) {
	w.t.Helper()
	for range 10 {
		w.Change(set, annotated("touched", w.Get(set).GetResourceVersion()))
		time.Sleep(10 * time.Millisecond)
	}
}

// changedMaker is a Maker that forgets something.
type changedMaker struct {
	contract.MachineMaker

	forget func(*contract.MachineSeed, *unstructured.Unstructured)
}

func (m changedMaker) NewMachine(set contract.Object, seed contract.MachineSeed) (contract.Object, error) {
	changed, _ := set.DeepCopyObject().(*unstructured.Unstructured)
	m.forget(&seed, changed)
	return m.MachineMaker.NewMachine(changed, seed)
}
