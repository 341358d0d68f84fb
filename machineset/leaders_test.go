package machineset_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset"
)

// leader is a process that thinks that it leads. Its caches lag behind by what the test says, each on its own.
type leader struct {
	w      *world
	cache  *lagged
	spy    *spy
	clock  *clocktesting.FakePassiveClock
	random *rand.Rand
	r      *machineset.Reconciler
}

func newLeader(w *world, h *history, clock *clocktesting.FakePassiveClock, random *rand.Rand, dies func() bool) *leader {
	l := &leader{w: w, clock: clock, random: random, cache: newLagged(h)}
	l.spy = &spy{Client: w.Client, history: h, gvks: w.tracked(), dies: dies, watch: w.boundsHold}
	l.restart()
	return l
}

// restart is a new process: it remembers nothing, and its caches begin with a fresh list.
func (l *leader) restart() {
	l.spy.dead = false
	for _, gvk := range l.w.tracked() {
		l.cache.at[gvk.Kind] = l.cache.history.length(gvk.Kind) - 1
	}
	r, err := machineset.New(l.w.kinds, engine.Ports{Client: l.spy, Cache: l.cache, APIReader: l.w.Client},
		machineset.Options{Options: engine.Options{Clock: l.clock, StatusDelay: -1}})
	require.NoError(l.w.t, err)
	require.NoError(l.w.t, r.IndexMachines(l.w.t.Context()))
	l.r = r
}

// pass makes one pass with what the caches show, and reports whether the process lives.
func (l *leader) pass(key client.ObjectKey) bool {
	obj := testenv.Object(l.w.kinds.Set.GVK, key.Name)
	if l.cache.Get(l.w.t.Context(), key, obj) != nil {
		return true
	}
	_, _ = l.r.ReconcileObject(l.w.t.Context(), obj) // what went wrong is tried again
	return !l.spy.dead
}

// catchUp moves the caches on by as much as chance will have it.
func (l *leader) catchUp() {
	for _, gvk := range l.w.tracked() {
		now := l.cache.history.length(gvk.Kind) - 1
		l.cache.at[gvk.Kind] += l.random.IntN(now - l.cache.at[gvk.Kind] + 1)
	}
}

func (l *leader) catchUpWholly() {
	for _, gvk := range l.w.tracked() {
		l.cache.at[gvk.Kind] = l.cache.history.length(gvk.Kind) - 1
	}
}

func (w *world) tracked() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{w.kinds.Set.GVK, w.kinds.Machine.GVK}
}

// Two processes that both think that they lead, with caches that lag behind by minutes, each on its own, and that die anywhere.
func TestTwoLeadersWithLateCachesNeverMakeASecondMachineForASlot(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			twoLeaders(t, seed)
		})
	}
}

func twoLeaders(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	var options []fake.Option
	if seed%3 == 0 {
		options = append(options, fake.WithField("{{ .random }}", "spec", "machineNaming", "template"))
	}
	dies := func() bool { return random.IntN(25) == 0 }
	l := newWorldOfLeaders(t, 1+random.Int64N(6), options, random, func(*world) bool { return dies() })
	w, set, h, clock := l.world, l.set, l.history, l.leader.clock
	leaders := []*leader{l.leader, newLeader(w, h, clock, random, dies)}
	key := client.ObjectKeyFromObject(set)
	for range 150 {
		clock.SetTime(clock.Now().Add(time.Duration(random.IntN(120)) * time.Second))
		if random.IntN(8) == 0 {
			w.scale(set, random.Int64N(8))
			h.note(t.Context(), w.tracked()...)
		}
		l := leaders[random.IntN(2)]
		l.catchUp()
		if !l.pass(key) {
			l.restart()
		}
		w.finish(h, random)
	}
	last := leaders[0]
	last.spy.dies = func() bool { return false }
	last.restart()
	for range 40 { // then one of them is left alone
		clock.SetTime(clock.Now().Add(time.Minute))
		last.catchUpWholly()
		last.pass(key)
		w.finish(h, random)
	}
	w.oneForEachSlot()
	desired := testenv.Number(w.Get(set), "spec", "replicas")
	require.Len(t, w.machines(), int(desired), w.describe(set))
	for _, gvk := range []schema.GroupVersionKind{infraGVK(), bootstrapGVK()} {
		used := 0
		for _, part := range w.List(gvk) {
			if w.Get(testenv.Object(w.kinds.Machine.GVK, part.GetName())) != nil {
				used++
				continue
			}
			require.True(t, isOwnedBy(&part, set.GetUID()), "what is not needed goes with the set")
		}
		require.Equal(t, int(desired), used)
	}
}

func isOwnedBy(u *unstructured.Unstructured, uid types.UID) bool {
	return slices.ContainsFunc(u.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == uid })
}

// boundsHold checks what must be true after every write: nothing is created beyond what is wanted, deletions included, and nothing
// goes that is wanted.
func (w *world) boundsHold(verb string, obj client.Object) {
	if obj.GetObjectKind().GroupVersionKind() != w.kinds.Machine.GVK {
		return
	}
	set := w.Get(testenv.Object(w.kinds.Set.GVK, "workers"))
	desired := testenv.Number(set, "spec", "replicas")
	if set.GetDeletionTimestamp() != nil {
		desired = 0
	}
	machines, active := w.machines(), 0
	for i := range machines {
		if machines[i].GetDeletionTimestamp() == nil {
			active++
		}
	}
	switch {
	case verb == "create" && int64(len(machines)) > desired:
		w.t.Errorf("%d Machines after a creation, %d of them active, and %d are wanted", len(machines), active, desired)
	case verb == "delete" && int64(active) < desired:
		w.t.Errorf("%d active Machines after a deletion, and %d are wanted", active, desired)
	}
}

// finish ends some of the deletions, with all that belongs to the Machines.
func (w *world) finish(h *history, random *rand.Rand) {
	w.t.Helper()
	for _, m := range w.machines() {
		if m.GetDeletionTimestamp() == nil || random.IntN(3) > 0 {
			continue
		}
		for _, gvk := range []schema.GroupVersionKind{infraGVK(), bootstrapGVK()} {
			require.NoError(w.t, client.IgnoreNotFound(w.Client.Delete(w.t.Context(), testenv.Object(gvk, m.GetName()))))
		}
		w.Change(&m, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
		h.note(w.t.Context(), w.tracked()...)
	}
	for _, m := range w.machines() { // and a Machine takes over what it refers to
		for _, gvk := range []schema.GroupVersionKind{infraGVK(), bootstrapGVK()} {
			part := w.Get(testenv.Object(gvk, m.GetName()))
			if part != nil && metav1.GetControllerOf(part) == nil {
				w.Change(part, func(u *unstructured.Unstructured) {
					u.SetOwnerReferences([]metav1.OwnerReference{{
						APIVersion: m.GetAPIVersion(), Kind: m.GetKind(), Name: m.GetName(), UID: m.GetUID(), Controller: new(true),
					}})
				})
			}
		}
	}
}
