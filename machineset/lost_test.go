package machineset_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func stripLedger(u *unstructured.Unstructured) {
	annotations := u.GetAnnotations()
	delete(annotations, scale.LedgerAnnotation)
	u.SetAnnotations(annotations)
}

// A replace, or a GitOps tool, takes annotations away that its manifest does not have, and the cache has yet to show what was created.
func TestALedgerThatIsLostWhileTheCacheIsBehindCostsNoSecondMachine(t *testing.T) {
	t.Parallel()
	for shown := range 4 { // how many of the three Machines the cache shows
		for name, lose := range map[string]func(*unstructured.Unstructured){
			"it is taken away":            stripLedger,
			"an earlier one is put back":  fake.WithAnnotations(map[string]string{scale.LedgerAnnotation: `{"next":1}`}),
			"everything is taken from it": func(u *unstructured.Unstructured) { u.SetAnnotations(nil); u.SetFinalizers(nil) },
		} {
			t.Run(fmt.Sprint(name, " and the cache shows ", shown), func(t *testing.T) {
				t.Parallel()
				l := newLed(t, 3)
				first := l.leader
				next := newLeader(l.world, l.history, first.clock, nil, func() bool { return false })
				l.Change(l.set, lose)
				for _, l.leader = range []*leader{next, first} {
					l.passesAfter(time.Second, 5, func(at map[string]int) { at[l.kinds.Machine.GVK.Kind] = shown })
					require.Len(t, l.machines(), 3, l.describe(l.set))
				}
				l.scale(l.set, 4)
				l.leader = next
				l.settle()
				require.Len(t, l.machines(), 4, l.describe(l.set))
				l.oneForEachSlot()
			})
		}
	}
}

// Whoever narrows the cache of Machines by labels that a set's own Machines do not have would see none of them, however many it makes.
func TestASetWhoseOwnMachinesTheCacheLeavesOutHoldsAndSaysSo(t *testing.T) {
	t.Parallel()
	for name, everywhere := range map[string]bool{"of all namespaces": true, "of some namespaces": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake.Options{}).live()
			narrow := cache.Options{ByObject: map[client.Object]cache.ByObject{
				testenv.Object(w.kinds.Machine.GVK, ""): {Label: labels.SelectorFromSet(labels.Set{"team": "ours"})},
			}}
			if !everywhere {
				narrow.DefaultNamespaces = map[string]cache.Config{"default": {}}
			}
			clock := clocktesting.NewFakePassiveClock(time.Now())
			w.runWith(ctrl.Options{Cache: narrow}, machineset.Options{Options: pass.Options{Clock: clock, StatusDelay: -1}})
			set := w.set("workers", 2)
			w.Create(set)
			w.until("hold", func() bool {
				clock.SetTime(clock.Now().Add(time.Second))
				return w.condition(set, contract.ConditionScalingUp).Reason == machineset.ReasonMachinesNotShown
			})
			machines := w.machines()
			require.Len(t, machines, 2)
			c := w.condition(set, contract.ConditionScalingUp)
			require.Contains(t, c.Message, min(machines[0].GetName(), machines[1].GetName()))
			require.Contains(t, c.Message, "label")
			for n := range int64(3) { // more events, and time
				clock.SetTime(clock.Now().Add(time.Hour))
				w.scale(set, 3+n)
				w.conditionSays(set, contract.ConditionScalingUp, fmt.Sprintf("from 0 to %d replicas", 3+n))
			}
			require.Len(t, w.machines(), 2)
		})
	}
}

// Nothing tells a Machine that was deleted to the end from one that the cache leaves out, but the API server.
func TestASetWhoseMachinesWereAllDeletedMakesOthersWhoeverLeadsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	stop := w.run(machineset.Options{})
	set := w.set("workers", 2)
	w.Create(set)
	w.has(set, 2)
	for range 2 {
		stop()
		for _, m := range w.machines() {
			require.NoError(t, w.Client.Delete(t.Context(), &m))
		}
		w.Eventually("no Machine", func() string { return left(len(w.machines())) })
		stop = w.run(machineset.Options{})
		w.has(set, 2)
	}
	for _, m := range w.machines() {
		require.NoError(t, w.Client.Delete(t.Context(), &m))
	}
	w.Eventually("others", func() string { return left(len(w.machines()) - 2) })
	w.has(set, 2)
}

func left(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n, " too many")
}

// lists is how often the process under test has listed Machines, its informers' lists included.
func (w *world) lists() int {
	return w.Store.CountRequests(func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.Verb == "list" && r.GVK.Kind == w.kinds.Machine.GVK.Kind
	})
}

// modes are the caches that a manager may have.
func modes() map[string]cache.Options {
	return map[string]cache.Options{
		"all namespaces":  {},
		"some namespaces": {DefaultNamespaces: map[string]cache.Config{"default": {}, "other": {}}},
	}
}

func TestASetLivesInEveryModeOfTheCache(t *testing.T) {
	t.Parallel()
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake.Options{CacheLagFunc: func(schema.GroupKind, types.NamespacedName) time.Duration {
				return 50 * time.Millisecond
			}}).live()
			stop := w.runWith(ctrl.Options{Cache: mode}, machineset.Options{})
			set := w.set("workers", 3)
			w.Create(set)
			w.has(set, 3)
			w.scale(set, 5)
			w.has(set, 5)
			w.Change(set, stripLedger)
			w.scale(set, 6)
			w.has(set, 6)
			w.scale(set, 2)
			w.has(set, 2)
			machine := w.machines()[0]
			require.NoError(t, w.Client.Delete(t.Context(), &machine))
			w.until("be replaced", func() bool { return w.Get(&machine) == nil })
			w.has(set, 2)
			stop()
			w.runWith(ctrl.Options{Cache: mode}, machineset.Options{})
			w.scale(set, 3)
			w.has(set, 3)
			w.oneForEachSlot()
			require.NoError(t, w.Client.Delete(t.Context(), set))
			w.has(set, 0)
		})
	}
}

// A list of all Machines of a namespace is what a creation costs, and nothing else.
func TestEventsOfMachinesCostNoListInAnyModeOfTheCache(t *testing.T) {
	t.Parallel()
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake.Options{}).live()
			w.runWith(ctrl.Options{Cache: mode}, machineset.Options{Options: pass.Options{StatusDelay: -1}})
			set := w.set("workers", 5)
			w.Create(set)
			w.has(set, 5)
			machines := w.machines()
			before := w.lists()
			for n := range 20 { // four of each Machine: more would be a fight
				machine := machines[n%len(machines)]
				w.Change(&machine, func(u *unstructured.Unstructured) { u.SetLabels(withKey(u.GetLabels(), "tier", fmt.Sprint("t", n))) })
				w.until("the set to give the label back", func() bool { return w.Get(&machine).GetLabels()["tier"] == "a" })
			}
			require.Equal(t, before, w.lists())
		})
	}
}

func withKey(have map[string]string, key, value string) map[string]string {
	have[key] = value
	return have
}

// A set that has adopted Machines and created none is led, although the cache may show them as they were before.
func TestASetThatHasOnlyAdoptedIsNoRestoredOne(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, fake.Options{}, fake.Loops{})
	machine := testenv.Object(w.kinds.Machine.GVK, "free")
	machine.SetLabels(map[string]string{"pool": "workers", "cluster.x-k8s.io/cluster-name": "demo"})
	machine.Object["spec"] = map[string]any{"clusterName": "demo"}
	w.Create(machine)
	set := w.set("workers", 1)
	w.Create(set)
	h := &history{store: w.Client, kinds: map[string][]snapshot{}}
	h.note(t.Context(), w.tracked()...)
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	l := newLeader(w, h, clock, nil, func() bool { return false })
	key := client.ObjectKeyFromObject(set)
	for range 3 {
		clock.SetTime(clock.Now().Add(time.Second))
		l.catchUpWholly()
		l.cache.at[w.kinds.Machine.GVK.Kind] = 0
		l.pass(key)
	}
	require.NoError(t, w.Client.Delete(t.Context(), machine))
	h.note(t.Context(), w.tracked()...)
	for range 5 {
		clock.SetTime(clock.Now().Add(time.Minute))
		l.catchUpWholly()
		l.pass(key)
	}
	require.Len(t, w.machines(), 1, w.describe(set))
	require.NotEqual(t, "free", w.machines()[0].GetName())
}
