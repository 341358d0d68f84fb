package deployment_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/scale"
)

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
				n, _, _ := unstructured.NestedInt64(w.Get(set).Object, "status", "replicas")
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
