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
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
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
			w := newWorld(t, fake.Options{}).live()
			set := w.set("workers", 3)
			w.Create(set)
			foreign := testenv.Object(gvk, w.nameOf(set, 2))
			foreign.SetAnnotations(map[string]string{"whose": "another client's"})
			w.Create(foreign)
			w.Quiet("lives", quiet) // or it takes parts over that are there for a moment
			w.run(machineset.Options{})
			w.until("have three Machines beside it", func() bool {
				own := 0
				for _, m := range w.machines() {
					if metav1.GetControllerOf(&m) != nil {
						own++
					}
				}
				return own == 3
			})
			have := w.Get(foreign)
			require.Equal(t, foreign.GetUID(), have.GetUID())
			require.Empty(t, have.GetOwnerReferences())
			require.Nil(t, have.GetDeletionTimestamp())
		})
	}
}

func TestANameThatIsStillBeingDeletedBurnsItsSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	set := w.set("workers", 1)
	w.Create(set)
	going := testenv.Object(infraGVK(), w.nameOf(set, 1))
	going.SetAnnotations(scale.Stamp{Set: set.GetUID(), Slot: 1}.Annotations()) // of an earlier attempt, say, that a person cleans up
	going.SetFinalizers([]string{"example.com/slow"})
	w.Create(going)
	require.NoError(t, w.Client.Delete(t.Context(), going))
	w.run(machineset.Options{})
	w.until("have a Machine of another name", func() bool {
		machines := w.machines()
		return len(machines) == 1 && machines[0].GetName() != going.GetName()
	})
	require.Equal(t, w.nameOf(set, 2), w.machines()[0].GetName())
}

// A set and its Machines come back from a backup: the set has another UID, and the Machines name the old one.
func TestASetThatWasRestoredFromABackupTakesItsMachinesBackBeforeItCreates(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, fake.Options{}, fake.Loops{}).live() // the garbage collector would have taken them already
	set := w.set("workers", 3)
	w.Create(set)
	dead := metav1.OwnerReference{
		APIVersion: w.kinds.Set.GVK.GroupVersion().String(), Kind: "MachineSet", Name: "workers", UID: types.UID("of-the-old-cluster"),
		Controller: new(true),
	}
	for _, name := range []string{"a", "b", "c"} {
		m := testenv.Object(w.kinds.Machine.GVK, name)
		m.SetLabels(map[string]string{"pool": "workers", contract.ClusterNameLabel: "demo"})
		m.SetAnnotations(scale.Stamp{Set: "of-the-old-cluster", Slot: 7}.Annotations())
		m.SetFinalizers([]string{contract.MachineFinalizer})
		m.SetOwnerReferences([]metav1.OwnerReference{dead})
		m.Object["spec"] = map[string]any{"clusterName": "demo"}
		w.Create(m)
	}
	w.run(machineset.Options{})
	w.Eventually("own them", func() string {
		for _, m := range w.machines() {
			if metav1.GetControllerOf(&m).UID != set.GetUID() {
				return w.describe(set)
			}
		}
		return ""
	})
	w.conditionSays(set, contract.ConditionScalingUp, "")
	require.Len(t, w.machines(), 3)
	require.Empty(t, w.List(infraGVK()), "nothing was made")
}

// newTemplate has a set make other Machines from now on.
func (w *world) newTemplate(set *unstructured.Unstructured) {
	template := w.template(infraGVK())
	template.SetName("workers-2")
	require.NoError(w.t, unstructured.SetNestedField(template.Object, "small", "spec", "template", "spec", "size"))
	w.Create(template)
	w.Change(set, func(u *unstructured.Unstructured) {
		require.NoError(w.t, unstructured.SetNestedField(u.Object, "workers-2", "spec", "template", "spec", "infrastructureRef", "name"))
		require.NoError(w.t, unstructured.SetNestedField(u.Object, "v1.37.0", "spec", "template", "spec", "version"))
	})
}

func TestASlotThatWasHalfMadeFromAnotherTemplateIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world, set *unstructured.Unstructured){
		"the set names another template": (*world).newTemplate,
		"the template is changed": func(w *world, _ *unstructured.Unstructured) {
			w.Change(w.template(infraGVK()), fake.WithField("small", "spec", "template", "spec", "size"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake.Options{}).live()
			mend := w.refuses("create", "")
			w.run(machineset.Options{})
			set := w.set("workers", 1)
			w.Create(set)
			w.Eventually("make the parts of a Machine", func() string { return left(len(w.List(infraGVK())) - 1) })
			half := w.List(infraGVK())[0]
			change(w, set)
			w.Eventually("make other parts", func() string {
				for _, part := range w.List(infraGVK()) {
					if testenv.Text(&part, "spec", "size") == "small" {
						return ""
					}
				}
				return w.describe(set)
			})
			mend()
			w.has(set, 1)
			part := w.partsOfMachines(infraGVK())[0]
			require.Equal(t, "small", testenv.Text(&part, "spec", "size"))
			require.NotEqual(t, half.GetName(), part.GetName())
			require.Equal(t, part.GetName(), w.machines()[0].GetName())
		})
	}
}

// Nothing else remembers which template a slot was begun with.
func TestAPartOfAnotherTemplateIsNotUsedByASetThatHasLostItsLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	mend := w.refuses("create", "")
	stop := w.run(machineset.Options{})
	set := w.set("workers", 1)
	w.Create(set)
	w.Eventually("make the parts of a Machine", func() string { return left(len(w.List(infraGVK())) - 1) })
	stop()
	w.Change(set, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.newTemplate(set)
	mend()
	w.run(machineset.Options{})
	w.has(set, 1)
	parts := w.partsOfMachines(infraGVK())
	require.Len(t, parts, 1)
	require.Equal(t, "small", testenv.Text(&parts[0], "spec", "size"))
	require.Equal(t, parts[0].GetName(), w.machines()[0].GetName())
}

// The process that made the Machine has died before it could say so, and the caches of the next one have yet to show it.
func TestASlotWhoseMachineExistsIsNotGivenUpForAnotherTemplate(t *testing.T) {
	t.Parallel()
	l := newHalfLed(t)
	l.newTemplate(l.set)
	for n := range 10 {
		l.passes(1, func(at map[string]int) {
			if n < 5 {
				at[l.kinds.Machine.GVK.Kind] = 0
			}
		})
		require.Len(t, l.machines(), 1, l.describe(l.set))
	}
	require.Len(t, l.List(infraGVK()), 1)
}
