package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/machinist-dev/machinist/fake"
)

func TestARecorderKeepsWhenEachMachineWasFirstRunningAndGone(t *testing.T) {
	now := time.Unix(100, 0)
	r := newRecorder(func() time.Time { return now })
	seen := func(uid, fleet, phase string) *unstructured.Unstructured {
		m := fake.Machine(uid, fake.WithLabels(map[string]string{fleetLabel: fleet}), fake.WithField(phase, "status", "phase"))
		m.SetUID(types.UID(uid))
		return m
	}
	at := func(second int64) { now = time.Unix(second, 0) }

	r.see(seen("a", "f", "Pending"), false)
	r.see(seen("other", "g", "Running"), false)
	n, _ := r.running("f")
	require.Zero(t, n)

	at(101)
	r.see(seen("a", "f", "Running"), false)
	at(102)
	r.see(seen("b", "f", "Running"), false)
	at(103)
	r.see(seen("a", "f", "Running"), false) // again, which is no news
	n, last := r.running("f")
	require.Equal(t, 2, n)
	require.Equal(t, time.Unix(102, 0), last)

	at(104)
	r.see(cache.DeletedFinalStateUnknown{Obj: seen("a", "f", "Deleting")}, true)
	n, last = r.gone("f")
	require.Equal(t, 1, n)
	require.Equal(t, time.Unix(104, 0), last)
	n, _ = r.running("f")
	require.Equal(t, 2, n, "it has been Running all the same")
}
