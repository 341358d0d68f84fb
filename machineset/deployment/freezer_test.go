package deployment_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestASetThatOvershootsFreezesAndThawsWithItsDeployment(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string]contract.Kinds{"Cluster API": clusterAPI(), "Gardener": contract.Gardener()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSetsWorld(t, kinds)
			w.freezer(scale.FreezeLimits{})
			d := w.deployment("d", 2)
			set := w.set("s", 2, d)
			w.machines(set, 4) // 2 and a surge of 1 and 2 are 5
			w.stays(set)
			more := w.machines(set, 3)
			w.frozen(scale.ReasonOverShooting, set)
			w.frozen(scale.ReasonMachineSetFrozen, d)
			if name == "Gardener" {
				require.Equal(t, "True", w.Get(set).GetLabels()[scale.GardenerFreezeLabel])
				require.Equal(t, "True", w.Get(d).GetLabels()[scale.GardenerFreezeLabel])
			}
			require.Contains(t, w.condition(w.Get(set)).Message, "the set may have fewer than 5")
			w.delete(more[:2])
			w.frozen(scale.ReasonOverShooting, set)
			w.delete(more[2:])
			w.thawed(set, d)
			for _, reason := range []string{"FrozeMachineSet", "UnfrozeMachineSet", "FrozeMachineDeployment", "UnfrozeMachineDeployment"} {
				w.Until("the event "+reason, func() bool { return len(w.Events(reason)) == 1 })
			}
		})
	}
}

// Gardener returns after the first set that it has frozen, and a deployment with Recreate, which has no surge, ends its loop.
func TestTwoSetsThatOvershootInOnePassBothFreezeBesideARecreateDeployment(t *testing.T) {
	t.Parallel()
	w := newSetsWorld(t, clusterAPI())
	recreate := w.deployment("a-recreate", 2, fake.WithField("Recreate", "spec", "rollout", "strategy", "type"))
	quiet := w.set("a-recreate-1", 2, recreate)
	broken := w.deployment("b-broken", 2, fake.WithField("many", "spec", "rollout", "strategy", "rollingUpdate", "maxSurge"))
	first, second := w.set("b-first", 1, broken), w.set("c-second", 1, nil)
	w.machines(quiet, 2)
	w.machines(first, 6)
	w.machines(second, 6)
	w.freezer(scale.FreezeLimits{})
	w.frozen(scale.ReasonOverShooting, first, second)
	w.stays(quiet)
}

func TestMachinesCountByTheirOwnerAndByTheirLabels(t *testing.T) {
	t.Parallel()
	w := newSetsWorld(t, clusterAPI())
	owned, selected, foreign := w.set("owned", 1, nil), w.set("selected", 1, nil), w.set("foreign", 1, nil)
	released := w.set("released", 1, nil)
	unlabelled := func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"set": "nothing"}) }
	unowned := func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) }
	w.machines(owned, 5, unlabelled) // a selector that does not match what the set creates
	w.machines(selected, 5, unowned) // a script
	made := func(u *unstructured.Unstructured) {
		u.SetAnnotations(scale.Stamp{Set: released.GetUID(), Slot: 1}.Annotations())
	}
	w.machines(released, 5, unlabelled, unowned, made)        // a script that takes the labels of what the set makes
	w.machines(owned, 5, func(u *unstructured.Unstructured) { // those of another set, with the labels of this one
		u.SetLabels(map[string]string{"set": foreign.GetName()})
	})
	w.freezer(scale.FreezeLimits{})
	w.frozen(scale.ReasonOverShooting, owned, selected, released)
	w.stays(foreign)
}

// A set adopts no Machine that is being deleted, such as one that the set of this name before it has left.
func TestAMachineInDeletionCountsOnlyForTheSetThatControlsIt(t *testing.T) {
	t.Parallel()
	w := newSetsWorld(t, clusterAPI())
	w.freezer(scale.FreezeLimits{})
	held := func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/held"}) }
	unowned := func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) }
	left := func(u *unstructured.Unstructured) {
		owners := u.GetOwnerReferences()
		owners[0].UID = "another"
		u.SetOwnerReferences(owners)
	}
	set := w.set("s", 1, nil)
	w.stays(set)
	for range 2 { // 3 at a time: with 4 it freezes
		w.delete(w.machines(set, 3, held, unowned))
		w.delete(w.machines(set, 3, held, left))
	}
	w.machines(set, 1)
	w.stays(set)
	for range 2 {
		w.delete(w.machines(set, 2, held))
	}
	w.frozen(scale.ReasonOverShooting, set)
}

func TestAScaleDownOfARunningSetDoesNotFreeze(t *testing.T) {
	t.Parallel()
	w := newSetsWorld(t, clusterAPI())
	w.freezer(scale.FreezeLimits{})
	set := w.set("s", 8, nil)
	all := w.machines(set, 8)
	w.isAtWork()
	w.stays(set)
	w.Change(set, fake.WithField(int64(1), "spec", "replicas"))
	w.isAtWork()
	w.stays(set)
	w.delete(all[1:])
	w.isAtWork()
	w.stays(set)
	w.machines(set, 3)
	w.frozen(scale.ReasonOverShooting, set)
}

func TestAPersonThawsASetThroughItsDeployment(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kinds contract.Kinds
		key   string
	}{
		"by our key": {clusterAPI(), scale.UnfreezeAnnotation}, "by Gardener's": {contract.Gardener(), scale.GardenerUnfreezeAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSetsWorld(t, tc.kinds)
			w.freezer(scale.FreezeLimits{})
			d := w.deployment("d", 1)
			a, b := w.set("a", 1, d), w.set("b", 0, d)
			w.machines(a, 6)
			w.machines(b, 6)
			w.frozen(scale.ReasonOverShooting, a, b)
			w.frozen(scale.ReasonMachineSetFrozen, d)
			w.Change(d, func(u *unstructured.Unstructured) {
				annotations := u.GetAnnotations()
				annotations[tc.key] = "please"
				u.SetAnnotations(annotations)
			})
			w.thawed(a, b, d)
			w.isAtWork()
			w.stays(a)
			w.machines(a, 3) // what it may have beyond the accepted ones
			w.frozen(scale.ReasonOverShooting, a)
			w.Change(a, fake.WithAnnotations(map[string]string{tc.key: ""}))
			w.thawed(a, d)
		})
	}
}

func TestAFreezeOfAPersonStays(t *testing.T) {
	t.Parallel()
	w := newSetsWorld(t, clusterAPI())
	w.freezer(scale.FreezeLimits{})
	d := w.deployment("d", 1)
	set := w.set("s", 1, d, fake.WithLabels(map[string]string{scale.FreezeLabel: "True"}))
	w.frozen(scale.ReasonMachineSetFrozen, d)
	w.Never("the freeze ends", 400*time.Millisecond, func() string {
		if w.Get(set).GetLabels()[scale.FreezeLabel] != "True" {
			return "it has"
		}
		return ""
	})
	w.Change(set, func(u *unstructured.Unstructured) { u.SetLabels(nil) })
	w.thawed(set, d)
}

func TestAPausedSetIsNotChanged(t *testing.T) {
	t.Parallel()
	w := newSetsWorld(t, clusterAPI())
	w.freezer(scale.FreezeLimits{})
	set := w.set("s", 1, nil, fake.WithAnnotations(map[string]string{contract.PausedAnnotation: ""}))
	w.machines(set, 9)
	w.stays(set)
	for _, write := range w.Writes(freezer) {
		require.Equal(t, "status", write.Subresource, "the condition Paused")
	}
	w.Change(set, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.frozen(scale.ReasonOverShooting, set)
}

func TestACrashBetweenTheLabelAndTheConditionIsMended(t *testing.T) {
	t.Parallel()
	w := newSetsWorld(t, clusterAPI())
	half := w.set("half", 1, nil, fake.WithLabels(map[string]string{scale.FreezeLabel: scale.ReasonOverShooting}))
	w.machines(half, 6)
	other := w.set("other", 1, nil)
	w.Change(other, func(u *unstructured.Unstructured) {
		frozen := engine.Condition(scale.ConditionFrozen, metav1.ConditionTrue, scale.ReasonOverShooting, "")
		frozen.LastTransitionTime = metav1.Now()
		require.NoError(t, w.kinds.Set.Adapter.Write(u, contract.MachineSetUpdate{
			ReplicatedUpdate: contract.ReplicatedUpdate{Conditions: []metav1.Condition{frozen}},
		}))
	})
	w.freezer(scale.FreezeLimits{})
	w.frozen(scale.ReasonOverShooting, half)
	w.thawed(other)
}

func TestASetAtRestCostsNoWrite(t *testing.T) {
	t.Parallel()
	w := newSetsWorld(t, clusterAPI())
	d := w.deployment("d", 3)
	set := w.set("s", 3, d)
	w.machines(set, 9)
	w.freezer(scale.FreezeLimits{})
	w.frozen(scale.ReasonOverShooting, set)
	w.frozen(scale.ReasonMachineSetFrozen, d)
	w.Still("writes", 300*time.Millisecond, func() int { return len(w.Writes(freezer)) })
}

// label has a person freeze an object, by the label of their system.
func (w *setsWorld) label(u *unstructured.Unstructured) {
	w.t.Helper()
	key := scale.FreezeLabel
	if u.GroupVersionKind().Group == scale.GardenerGroup {
		key = scale.GardenerFreezeLabel
	}
	w.Change(u, fake.WithLabels(map[string]string{key: "True"}))
}

// keeps waits until a Freezer has looked at frozen objects a few times more, and wants them to stay frozen.
func (w *setsWorld) keeps(all ...*unstructured.Unstructured) {
	w.t.Helper()
	w.Never("a freeze ends", 400*time.Millisecond, func() string {
		for _, u := range all {
			if len(w.Get(u).GetLabels()) == 0 {
				return "that of " + u.GetName()
			}
		}
		return ""
	})
}

func TestAFreezeOfAPersonStaysWhereAPersonHasEndedOneOfTheGuard(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string]contract.Kinds{"Cluster API": clusterAPI(), "Gardener": contract.Gardener()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSetsWorld(t, kinds)
			w.freezer(scale.FreezeLimits{Up: 4, Down: 3})
			d := w.deployment("d", 2)
			set := w.set("s", 2, d)
			all := w.machines(set, 7) // 2 and a surge of 1 and 4
			w.frozen(scale.ReasonOverShooting, set)
			w.frozen(scale.ReasonMachineSetFrozen, d)
			w.delete(all[:2])
			w.Eventually("the set counts 5", func() string { // by 7, it would be frozen again
				n := testenv.Number(w.Get(set), "status", "replicas")
				return map[bool]string{false: fmt.Sprint(n)}[n == 5]
			})
			w.keeps(set) // there are more than 4
			w.Change(set, func(u *unstructured.Unstructured) { u.SetLabels(nil) })
			w.thawed(set, d)
			w.delete(all[2:5])
			w.label(set)
			w.keeps(set)
		})
	}
}

// Neither a number of Machines nor a deployment that follows its sets changes it.
func TestALabelOfAPersonStaysAsItIs(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string]contract.Kinds{"Cluster API": clusterAPI(), "Gardener": contract.Gardener()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSetsWorld(t, kinds)
			person := func(value string) fake.Option { return fake.WithLabels(map[string]string{scale.FreezeLabel: value}) }
			d := w.deployment("d", 2, person("true"))
			set, alone := w.set("s", 2, d, person("yes")), w.set("alone", 2, nil, person(""))
			w.machines(set, 2)
			w.freezer(scale.FreezeLimits{})
			w.isAtWork()
			w.keeps(d, set, alone)
			for value, u := range map[string]*unstructured.Unstructured{"true": d, "yes": set, "": alone} {
				require.Equal(t, value, w.Get(u).GetLabels()[scale.FreezeLabel])
				require.Empty(t, w.condition(w.Get(u)).Reason)
			}
		})
	}
}

func TestAPersonTakesAFreezeOfTheGuardOver(t *testing.T) {
	t.Parallel()
	w := newSetsWorld(t, clusterAPI())
	w.freezer(scale.FreezeLimits{})
	set := w.set("s", 1, nil)
	all := w.machines(set, 6)
	w.frozen(scale.ReasonOverShooting, set)
	w.Change(set, fake.WithLabels(map[string]string{scale.FreezeLabel: "True"}))
	w.Eventually("the condition of the guard to go", func() string { return w.condition(w.Get(set)).Reason })
	w.delete(all[1:])
	w.isAtWork()
	w.keeps(set)
	w.Change(set, func(u *unstructured.Unstructured) { u.SetLabels(nil) })
	w.thawed(set)
}

func TestAFreezeThatIsRefusedIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newSetsWorld(t, clusterAPI())
	refused, other := w.set("a", 1, nil), w.set("b", 1, nil)
	w.machines(refused, 6)
	w.machines(other, 6)
	allow := w.Store.Inject(fake.Fault{Match: fake.Match("patch", w.kinds.Set.GVK.GroupKind(), "a"), Times: -1,
		Err: apierrors.NewInternalError(errors.New("a webhook is down"))})
	w.freezer(scale.FreezeLimits{})
	w.frozen(scale.ReasonOverShooting, other)
	require.Empty(t, w.Get(refused).GetLabels())
	allow()
	w.frozen(scale.ReasonOverShooting, refused)
}
