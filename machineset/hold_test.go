package machineset_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestASetWithoutItsTemplateSaysSoAndGoesOnWhenThereIsOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	template := w.template(infraGVK())
	require.NoError(t, w.Client.Delete(t.Context(), template))
	w.run(machineset.Options{})
	set := w.set("workers", 2)
	w.Create(set)
	text := "Scaling up from 0 to 2 replicas is blocked because:\n* FakeMachineTemplate does not exist"
	c := w.conditionSays(set, contract.ConditionScalingUp, text)
	require.Equal(t, text, c.Message)
	require.Equal(t, metav1.ConditionTrue, c.Status)
	require.Empty(t, w.machines())
	w.Create(w.template(infraGVK()))
	w.has(set, 2)
}

func TestWhatKeepsASetFromCreatingIsReported(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*unstructured.Unstructured)
		says   string
	}{
		"creation is switched off": {
			fake.WithAnnotations(map[string]string{scale.DisableCreateAnnotation: "true"}),
			"annotation cluster.x-k8s.io/disable-machine-create is true"},
		"new Machines would not be its own": {
			func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedStringMap(u.Object, map[string]string{"pool": "other"}, "spec", "selector", "matchLabels")
			},
			"does not match the labels of the template"},
		"names would be alike": {
			fake.WithField("worker", "spec", "machineNaming", "template"),
			"it must contain {{ .random }}"},
		"the ledger cannot be read": {
			func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{scale.LedgerAnnotation: "?"}) },
			"annotation machinist.dev/creations"},
		"the template is none": {
			fake.WithField("Nothing", "spec", "template", "spec", "infrastructureRef", "kind"),
			"CustomResourceDefinition"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake.Options{}).live()
			w.run(machineset.Options{})
			set := w.set("workers", 2)
			tc.change(set)
			w.Create(set)
			w.conditionSays(set, contract.ConditionScalingUp, tc.says)
			require.Empty(t, w.machines())
			require.NoError(t, w.Client.Delete(t.Context(), set))
			w.Gone(set)
		})
	}
}

func TestAPausedSetIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	w.run(machineset.Options{})
	set := w.set("workers", 2)
	set.SetAnnotations(map[string]string{contract.PausedAnnotation: ""})
	w.Create(set)
	c := w.conditionSays(set, contract.ConditionPaused, "MachineSet has the cluster.x-k8s.io/paused annotation")
	require.Equal(t, metav1.ConditionTrue, c.Status)
	require.Empty(t, w.machines())
	w.Change(set, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.has(set, 2)
}

func TestASetOfAnotherControllerIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	w.run(machineset.Options{Options: pass.Options{WatchFilter: "mine"}})
	other, own := w.set("other", 2), w.set("workers", 2)
	own.SetLabels(map[string]string{contract.WatchFilterLabel: "mine"})
	w.Create(other, own)
	w.has(own, 2)
	require.Empty(t, w.Get(other).GetFinalizers())
}

func TestASetThatIsDeletedWithOrphanLeavesItsMachines(t *testing.T) {
	t.Parallel()
	w, set := newSet(t, 3)
	require.NoError(t, w.Client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	w.Gone(set)
	machines := w.machines()
	require.Len(t, machines, 3)
	for i := range machines {
		require.Nil(t, machines[i].GetDeletionTimestamp())
		require.Nil(t, metav1.GetControllerOf(&machines[i]))
	}
}

func TestASetInDeletionWaitsForItsMachines(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w, set := newSet(t, 2)
			w.lives.Hold(true)
			require.NoError(t, w.Client.Delete(t.Context(), set, client.PropagationPolicy(policy)))
			w.conditionSays(set, contract.ConditionDeleting, "Deleting 2 Machines")
			w.lives.Hold(false)
			w.has(set, 0)
			w.Gone(set)
		})
	}
}

// The first pass of a process may be over a set in deletion, which needs no templates: their kinds are not watched yet.
func TestASetInDeletionIsLetGoByAProcessThatHasWatchedNothingYet(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, fake.Options{}, fake.Loops{}).live() // no garbage collector: it would let go of the Machines itself
	stop := w.run(machineset.Options{})
	set := w.set("workers", 1)
	w.Create(set)
	w.has(set, 1)
	stop()
	require.NoError(t, w.Client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	mgr := w.Manager(userAgent, ctrl.Options{Cache: cache.Options{ReaderFailOnMissingInformer: true}})
	_, err := machineset.SetupWithManager(t.Context(), mgr, w.kinds, machineset.Options{})
	require.NoError(t, err)
	w.Run(mgr)
	w.until("the set to be let go", func() bool { return !slices.Contains(w.Get(set).GetFinalizers(), machineset.Finalizer) })
	require.Len(t, w.machines(), 1)
}

func TestAFrozenSetCreatesNothingAndStillDeletes(t *testing.T) {
	t.Parallel()
	w, set := newSet(t, 2)
	w.Change(set, func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{scale.FreezeLabel: "True"}) })
	w.scale(set, 5)
	c := w.conditionSays(set, contract.ConditionScalingUp, "Scaling up from 2 to 5 replicas is blocked because:\n* the set is frozen")
	require.Equal(t, scale.ReasonFrozen, c.Reason)
	require.Len(t, w.machines(), 2)
	w.scale(set, 1)
	w.has(set, 1)
	w.Change(set, func(u *unstructured.Unstructured) { u.SetLabels(nil) })
	w.scale(set, 3)
	w.has(set, 3)
}
