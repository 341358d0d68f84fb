package simulation_test

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/fake/simulation"
)

var (
	first = flag.Uint64("seed", 0, "the first seed")
	seeds = flag.Uint64("seeds", 0, "how many seeds to run; 0 runs those of make test")
	tries = flag.Int("shrink", 300, "how many histories may be run to find a shorter one; 0 stops at the first that fails")
)

func TestNoHistoryBreaksAnInvariant(t *testing.T) {
	t.Parallel()
	s := simulation.Seeds{From: *first, Count: *seeds, FailFast: *tries == 0}
	if s.Count == 0 {
		s.Count = usual
	} else {
		s.Progress = os.Stdout
	}
	report, err := simulation.RunSeeds(t.Context(), s)
	require.NoError(t, err)
	if *seeds > 1 {
		require.NoError(t, report.Print(os.Stdout))
	}
	for _, f := range report.Failed {
		t.Errorf("seed %d: %s", f.Seed, f.Broken)
	}
	if report.First != nil {
		t.Fatalf("%d histories; run one with -seed N -seeds 1; the shortest history found:\n%s",
			report.Histories, report.First.Shrunk(t.Context(), s.Options, *tries).Table())
	}
}

func TestASeedGivesTheSameHistoryEveryTime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		one, err := simulation.Run(t.Context(), simulation.Seeded(seed), simulation.Options{})
		require.NoError(t, err)
		other, err := simulation.Run(t.Context(), simulation.Seeded(seed), simulation.Options{})
		require.NoError(t, err)
		if diff := cmp.Diff(one, other); diff != "" {
			t.Fatalf("seed %d (-first +second):\n%s", seed, diff)
		}
	}
}
