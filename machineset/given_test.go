package machineset_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
)

// disorderly names the fields that it gives a Machine in another order each time: a MachineMaker promises none.
type disorderly struct {
	contract.MachineMaker

	calls *atomic.Int64
}

func (d disorderly) SyncMachine(set, machine contract.Object, given []string) ([]string, error) {
	now, err := d.MachineMaker.SyncMachine(set, machine, given)
	if now = slices.Clone(now); d.calls.Add(1)%2 == 0 {
		slices.Reverse(now)
	}
	return now, err
}

func TestTheSameFieldsInAnotherOrderAreNoReasonToWriteAMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0())
	calls := &atomic.Int64{}
	w.kinds.Maker = disorderly{w.kinds.Maker, calls}
	w.run(machineset.Options{})
	set := w.set("workers", 1, fake.WithField(map[string]any{
		"nodeDrainTimeoutSeconds": int64(30), "nodeDeletionTimeoutSeconds": int64(10), "nodeVolumeDetachTimeoutSeconds": int64(20),
	}, "spec", "template", "spec", "deletion"))
	w.create(set)
	w.has(set, 1)
	version := func() string { return w.machines()[0].GetResourceVersion() }
	before := version()
	for i, order := range []string{"Newest", "Oldest", "Newest"} { // each is a new generation, for which the Machine is looked at again
		seen := calls.Load()
		w.change(set, fake.WithField(order, "spec", "deletion", "order"))
		w.eventually("look at the Machine again", func() string {
			fresh := w.get(set)
			at, _, _ := unstructured.NestedInt64(fresh.Object, "status", "observedGeneration")
			if calls.Load() == seen || at != fresh.GetGeneration() {
				return w.describe(set)
			}
			return ""
		})
		require.Equal(t, before, version(), "change %d", i)
	}
}
