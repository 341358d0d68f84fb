package machineset_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// cluster-autoscaler marks a Machine and then asks its set for one less. The two are of different kinds: the cache of the set may be ahead.
func TestAMarkThatTheCacheHasYetToShowIsHeeded(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, fake0(), fake.Loops{})
	set := w.set("workers", 3)
	w.create(set)
	h := &history{store: w.client, kinds: map[string][]snapshot{}}
	h.note(t.Context(), w.tracked()...)
	h.kinds[w.kinds.Machine.GVK.Kind] = []snapshot{{version: set.GetResourceVersion()}}
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	l := newLeader(w, h, clock, nil, func() bool { return false })
	key := client.ObjectKeyFromObject(set)
	settle := func() {
		for range 10 {
			clock.SetTime(clock.Now().Add(time.Minute))
			l.catchUpWholly()
			l.pass(key)
		}
	}
	settle()
	machines := w.machines()
	require.Len(t, machines, 3)
	order := func(u *unstructured.Unstructured) scale.Machine {
		var state contract.MachineState
		require.NoError(t, w.kinds.Machine.Adapter.Read(u, &state))
		return scale.Of(&state, set.GetUID())
	}
	last := slices.MaxFunc(machines, func(a, b unstructured.Unstructured) int { return scale.Random.Compare(order(&a), order(&b)) })

	w.change(&last, func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		annotations[scale.DeleteAnnotation] = "true"
		u.SetAnnotations(annotations)
	})
	before := h.length(w.kinds.Machine.GVK.Kind) - 1
	w.scale(set, 2)
	h.note(t.Context(), w.tracked()...)
	for range 3 {
		clock.SetTime(clock.Now().Add(time.Minute))
		l.catchUpWholly()
		l.cache.at[w.kinds.Machine.GVK.Kind] = before
		l.pass(key)
	}
	settle()
	for _, m := range w.machines() {
		require.Equal(t, m.GetName() == last.GetName(), m.GetDeletionTimestamp() != nil, "%s is marked, and %s", last.GetName(), m.GetName())
	}
}
