package machineset_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// A Machine was moved to the set and received, and its mark is gone. The cache of Machines is behind that of sets, and shows the mark still.
func TestASetCountsAReceivedMachineWhoseMarkTheCacheStillShows(t *testing.T) {
	t.Parallel()
	var lag atomic.Int64
	w := newWorld(t, fake.Options{CacheLagFunc: func(kind schema.GroupKind, _ types.NamespacedName) time.Duration {
		return map[bool]time.Duration{true: time.Duration(lag.Load())}[kind.Kind == "Machine"]
	}}).live()
	mgr := w.manager(userAgent)
	_, err := machineset.SetupWithManager(t.Context(), mgr, w.kinds, machineset.Options{})
	require.NoError(t, err)
	w.start(mgr)
	set := w.set("workers", 2)
	w.create(set)
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
	w.change(set, annotate(scale.ReceivedAnnotation, moved.GetName()))
	w.change(&moved, annotate(contract.InPlaceAnnotation, contract.InPlaceMoved+"/workers"))
	w.eventually("the cache to show the mark", func() string {
		seen := moved.DeepCopy()
		require.NoError(t, mgr.GetCache().Get(t.Context(), client.ObjectKeyFromObject(seen), seen))
		if seen.GetAnnotations()[contract.InPlaceAnnotation] == "" {
			return "it does not"
		}
		return ""
	})
	lag.Store(int64(time.Second))
	w.change(&moved, annotate(contract.InPlaceAnnotation, ""))
	w.change(set, annotate(scale.ReceivedAnnotation, ""))
	for began := time.Now(); time.Since(began) < 2*time.Second; time.Sleep(20 * time.Millisecond) {
		require.Len(t, w.machines(), 2)
	}
	lag.Store(0)
	w.has(set, 2)
}
