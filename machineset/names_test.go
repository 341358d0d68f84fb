package machineset_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// nameOf is the name that a set gives a slot.
func (w *world) nameOf(set *unstructured.Unstructured, slot int64) string {
	w.t.Helper()
	naming, err := scale.NewNaming(set.GetUID(), set.GetName(), "demo", "")
	require.NoError(w.t, err)
	return naming.Name(slot)
}

func TestANameOfAnotherOwnerUsesItsSlotUpAndIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, gvk := range map[string]schema.GroupVersionKind{
		"a Machine": kindsOf(t).Machine.GVK, "an infrastructure object": infraGVK(), "a bootstrap object": bootstrapGVK(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake0()).live()
			set := w.set("workers", 3)
			w.create(set)
			foreign := object(gvk, w.nameOf(set, 2))
			foreign.SetAnnotations(map[string]string{"whose": "another client's"})
			w.create(foreign)
			w.Quiet("lives", quiet) // or it takes parts over that are there for a moment
			w.run(machineset.Options{})
			w.eventually("have three Machines beside it", func() string {
				own := 0
				for _, m := range w.machines() {
					if metav1.GetControllerOf(&m) != nil {
						own++
					}
				}
				if own != 3 {
					return w.describe(set)
				}
				return ""
			})
			have := w.get(foreign)
			require.Equal(t, foreign.GetUID(), have.GetUID())
			require.Empty(t, have.GetOwnerReferences())
			require.Nil(t, have.GetDeletionTimestamp())
		})
	}
}

func TestANameThatIsStillBeingDeletedBurnsItsSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	set := w.set("workers", 1)
	w.create(set)
	going := object(infraGVK(), w.nameOf(set, 1))
	going.SetAnnotations(scale.Stamp{Set: set.GetUID(), Slot: 1}.Annotations()) // of an earlier attempt, say, that a person cleans up
	going.SetFinalizers([]string{"example.com/slow"})
	w.create(going)
	require.NoError(t, w.client.Delete(t.Context(), going))
	w.run(machineset.Options{})
	w.eventually("have a Machine of another name", func() string {
		machines := w.machines()
		if len(machines) != 1 || machines[0].GetName() == going.GetName() {
			return w.describe(set)
		}
		return ""
	})
	require.Equal(t, w.nameOf(set, 2), w.machines()[0].GetName())
}

// A set and its Machines come back from a backup: the set has another UID, and the Machines name the old one.
func TestASetThatWasRestoredFromABackupTakesItsMachinesBackBeforeItCreates(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, fake0(), fake.Loops{}).live() // the garbage collector would have taken them already
	set := w.set("workers", 3)
	w.create(set)
	dead := metav1.OwnerReference{
		APIVersion: w.kinds.Set.GVK.GroupVersion().String(), Kind: "MachineSet", Name: "workers", UID: types.UID("of-the-old-cluster"),
		Controller: new(true),
	}
	for _, name := range []string{"a", "b", "c"} {
		m := object(w.kinds.Machine.GVK, name)
		m.SetLabels(map[string]string{"pool": "workers", contract.ClusterNameLabel: "demo"})
		m.SetAnnotations(scale.Stamp{Set: "of-the-old-cluster", Slot: 7}.Annotations())
		m.SetFinalizers([]string{contract.MachineFinalizer})
		m.SetOwnerReferences([]metav1.OwnerReference{dead})
		m.Object["spec"] = map[string]any{"clusterName": "demo"}
		w.create(m)
	}
	w.run(machineset.Options{})
	w.eventually("own them", func() string {
		for _, m := range w.machines() {
			if metav1.GetControllerOf(&m).UID != set.GetUID() {
				return w.describe(set)
			}
		}
		return ""
	})
	w.conditionSays(set, contract.ConditionScalingUp, "")
	require.Len(t, w.machines(), 3)
	require.Empty(t, w.list(infraGVK()), "nothing was made")
}
