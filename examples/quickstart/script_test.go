package main

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestTheSameSeedIsTheSameScript(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		o := quick()
		o.seed, o.machines = seed, 2+int(seed)
		first, second := newScript(o), newScript(o)
		require.Empty(t, cmp.Diff(first, second, cmp.AllowUnexported(script{}, pace{})))
		require.Contains(t, first.machines, first.victim)
		require.True(t, slices.IsSorted(first.machines))
		require.GreaterOrEqual(t, first.replicas, 2*o.machines, "two pods on each Node, so that a drain must wait")
		require.Equal(t, first.replicas-1, first.minAvailable)
	}
}

func TestAnotherSeedIsAnotherScript(t *testing.T) {
	t.Parallel()
	o := quick()
	first := newScript(o)
	o.seed++
	require.NotEqual(t, first.machines, newScript(o).machines)
}

func TestDelaysStayNearTheirMean(t *testing.T) {
	t.Parallel()
	o := quick()
	o.machines, o.pace.stage = maxMachines, time.Second
	s := newScript(o)
	for _, delays := range []map[string]time.Duration{s.bootstrap, s.infra, s.arrive} {
		require.Len(t, delays, maxMachines)
		for name, d := range delays {
			require.InDelta(t, 1, d.Seconds(), 0.3, name)
		}
	}
}
