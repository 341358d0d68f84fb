package machineset_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// led is a set of so many Machines with a process that leads it, and whose caches show what a test says.
type led struct {
	*world

	set     *unstructured.Unstructured
	history *history
	leader  *leader
}

func newLed(t *testing.T, replicas int64) *led {
	t.Helper()
	l := newWorldOfLeaders(t, replicas, nil, nil, func(*world) bool { return false })
	l.settle()
	require.Len(t, l.machines(), int(replicas))
	return l
}

// newHalfLed returns a set of one Machine whose first process died when it had made that, and another process that leads it now.
func newHalfLed(t *testing.T) *led {
	t.Helper()
	l := newWorldOfLeaders(t, 1, nil, nil, func(w *world) bool { return len(w.machines()) > 0 })
	for range 10 {
		l.leader.catchUpWholly()
		if !l.leader.pass(client.ObjectKeyFromObject(l.set)) {
			break
		}
	}
	require.Len(t, l.machines(), 1)
	l.leader = newLeader(l.world, l.history, l.leader.clock, nil, func() bool { return false })
	return l
}

// newWorldOfLeaders returns a world without loops and other processes, with a set and one process that leads it.
func newWorldOfLeaders(t *testing.T, replicas int64, options []fake.Option, random *rand.Rand, dies func(*world) bool) *led {
	t.Helper()
	w := newWorldWith(t, fake.Options{}, fake.Loops{})
	set := w.set("workers", replicas, options...)
	w.Create(set)
	h := &history{store: w.Client, kinds: map[string][]snapshot{}}
	h.note(t.Context(), w.tracked()...)
	h.kinds[w.kinds.Machine.GVK.Kind] = []snapshot{{version: set.GetResourceVersion()}}
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return &led{w, set, h, newLeader(w, h, clock, random, func() bool { return dies(w) })}
}

// passes makes passes, a minute apart, with caches that show everything but for what lags changes.
func (l *led) passes(n int, lags func(at map[string]int)) {
	l.t.Helper()
	l.passesAfter(time.Minute, n, lags)
}

func (l *led) passesAfter(wait time.Duration, n int, lags func(at map[string]int)) {
	l.t.Helper()
	l.history.note(l.t.Context(), l.tracked()...)
	for range n {
		l.leader.clock.SetTime(l.leader.clock.Now().Add(wait))
		l.leader.catchUpWholly()
		lags(l.leader.cache.at)
		l.leader.pass(client.ObjectKeyFromObject(l.set))
	}
}

func (l *led) settle() {
	l.t.Helper()
	l.passes(10, func(map[string]int) {})
}

// now is what the caches have seen of the Machines when they have seen everything.
func (l *led) now() (kind string, at int) {
	l.t.Helper()
	l.history.note(l.t.Context(), l.tracked()...)
	kind = l.kinds.Machine.GVK.Kind
	return kind, l.history.length(kind) - 1
}

func (l *led) annotate(m *unstructured.Unstructured, key, value string) {
	l.t.Helper()
	l.Change(m, func(u *unstructured.Unstructured) { u.SetAnnotations(withKey(u.GetAnnotations(), key, value)) })
}

// cluster-autoscaler marks a Machine and then asks its set for one less. The two are of different kinds: the cache of the set may be ahead.
func TestAMarkThatTheCacheHasYetToShowIsHeeded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ key, before, value string }{
		"a mark":                 {key: scale.DeleteAnnotation, value: "true"},
		"a mark without a value": {key: scale.DeleteAnnotation},
		"another priority":       {key: scale.PriorityAnnotation, before: "3", value: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			markIsHeeded(t, tc.key, tc.before, tc.value)
		})
	}
}

func markIsHeeded(t *testing.T, annotation, before, value string) {
	t.Helper()
	l := newLed(t, 3)
	machines := l.machines()
	order := func(u *unstructured.Unstructured) scale.Machine {
		var state contract.MachineState
		require.NoError(t, l.kinds.Machine.Adapter.Read(u, &state))
		return scale.Of(&state, l.set.GetUID())
	}
	refs := make([]*unstructured.Unstructured, len(machines))
	for i := range machines {
		refs[i] = &machines[i]
	}
	of := func(u *unstructured.Unstructured) *scale.Machine { m := order(u); return &m }
	last := *scale.First(scale.Random, refs, len(refs), of)[len(refs)-1]
	if before != "" {
		l.annotate(&last, annotation, before)
	}
	kind, unmarked := l.now()
	l.annotate(&last, annotation, value)
	l.scale(l.set, 2)
	l.passes(3, func(at map[string]int) { at[kind] = unmarked })
	l.settle()
	for _, m := range l.machines() {
		require.Equal(t, m.GetName() == last.GetName(), m.GetDeletionTimestamp() != nil, "%s is marked, and %s", last.GetName(), m.GetName())
	}
}

// The API server has one Machine less than the cache shows, and no more than are wanted.
func TestAMachineThatIsGoneAlreadyLeavesNoneToDelete(t *testing.T) {
	t.Parallel()
	l := newLed(t, 4)
	machines := l.machines()
	gone, next := &machines[0], &machines[1]
	l.annotate(next, scale.DeleteAnnotation, "") // it would be the one to go
	kind, before := l.now()
	l.Change(gone, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	require.NoError(t, l.Client.Delete(t.Context(), gone))
	l.scale(l.set, 3)
	l.passes(3, func(at map[string]int) { at[kind] = before })
	l.settle()
	require.Len(t, l.machines(), 3)
	require.Nil(t, l.Get(next).GetDeletionTimestamp())
}

// Of three Machines one was unavailable, and is available by now. The cache has yet to show that, and shows the set with one less.
func TestAMachineThatHasBecomeAvailableGoesNoSoonerThanOthers(t *testing.T) {
	t.Parallel()
	l := newLed(t, 3)
	machines := l.machines()
	say := func(m *unstructured.Unstructured, status string) {
		l.Change(m, func(u *unstructured.Unstructured) {
			var conditions []any
			for _, kind := range []string{"Available", "Ready"} {
				conditions = append(conditions, map[string]any{"type": kind, "status": status, "reason": "Test",
					"lastTransitionTime": "2026-01-01T00:00:00Z"})
			}
			require.NoError(t, unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions"))
			require.NoError(t, unstructured.SetNestedField(u.Object, "node-"+u.GetName(), "status", "nodeRef", "name"))
		})
	}
	ill, broken, well := &machines[0], &machines[1], &machines[2]
	say(ill, "False")
	say(broken, "True")
	say(well, "True")
	kind, before := l.now()
	say(ill, "True")
	say(broken, "False")
	l.scale(l.set, 2)
	l.passes(3, func(at map[string]int) { at[kind] = before })
	require.Len(t, l.machines(), 3, "the cache shows what is over")
	for _, m := range l.machines() {
		require.Nil(t, m.GetDeletionTimestamp(), m.GetName())
	}
	l.settle()
	require.NotNil(t, l.Get(broken).GetDeletionTimestamp())
	require.Nil(t, l.Get(ill).GetDeletionTimestamp())
}

// A Machine was moved to the set and received, and its mark is gone. The cache of Machines is behind that of sets, and shows the mark still.
func TestASetCountsAReceivedMachineWhoseMarkTheCacheStillShows(t *testing.T) {
	t.Parallel()
	var lag atomic.Int64
	w := newWorld(t, fake.Options{CacheLagFunc: func(kind schema.GroupKind, _ types.NamespacedName) time.Duration {
		return map[bool]time.Duration{true: time.Duration(lag.Load())}[kind.Kind == "Machine"]
	}}).live()
	mgr := w.Manager(userAgent, ctrl.Options{})
	_, err := machineset.SetupWithManager(t.Context(), mgr, w.kinds, machineset.Options{})
	require.NoError(t, err)
	w.Run(mgr)
	set := w.set("workers", 2)
	w.Create(set)
	w.has(set, 2)
	moved := w.machines()[0]
	annotate := func(key, value string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			all := u.GetAnnotations()
			if delete(all, key); value != "" {
				all[key] = value
			}
			u.SetAnnotations(all)
		}
	}
	w.Change(set, annotate(scale.ReceivedAnnotation, moved.GetName()))
	w.Change(&moved, annotate(contract.InPlaceAnnotation, contract.InPlaceMoved+"/workers"))
	w.until("the cache to show the mark", func() bool {
		seen := moved.DeepCopy()
		require.NoError(t, mgr.GetCache().Get(t.Context(), client.ObjectKeyFromObject(seen), seen))
		return seen.GetAnnotations()[contract.InPlaceAnnotation] != ""
	})
	lag.Store(int64(time.Second))
	w.Change(&moved, annotate(contract.InPlaceAnnotation, ""))
	w.Change(set, annotate(scale.ReceivedAnnotation, ""))
	for began := time.Now(); time.Since(began) < 2*time.Second; time.Sleep(20 * time.Millisecond) {
		require.Len(t, w.machines(), 2)
	}
	lag.Store(0)
	w.has(set, 2)
}
