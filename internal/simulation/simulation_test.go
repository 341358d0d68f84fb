package simulation_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/internal/simulation"
)

var (
	first = flag.Uint64("seed", 0, "the first seed")
	seeds = flag.Uint64("seeds", 0, "how many seeds to run; 0 runs those of make test")
	steps = flag.Int("steps", 0, "how many things happen before the faults stop; 0 is the default of Options.Steps")
	needs = flag.String("needs", "", "parts of the World and faults, separated by commas, without which a history is not run")
	tries = flag.Int("shrink", 300, "how many histories may be run to find a shorter one; -1 stops at the first that fails")
)

func TestNoHistoryBreaksAnInvariant(t *testing.T) {
	t.Parallel()
	s := simulation.Seeds{From: *first, Count: *seeds, FailFast: *tries < 0, Options: simulation.Options{Steps: *steps}}
	if *needs != "" {
		s.Needs = strings.Split(*needs, ",")
	}
	if s.Count == 0 {
		s.Count = usual
	} else {
		s.Progress = os.Stdout
	}
	report, err := simulation.RunSeeds(t.Context(), s)
	require.NoError(t, err)
	if *seeds > 1 {
		report.Reasons = declaredReasons(t)
		require.NoError(t, report.Print(os.Stdout))
	}
	for _, f := range report.Failed {
		t.Errorf("seed %d: %s", f.Seed, f.Broken)
	}
	if report.First != nil {
		shortest := report.First.Shrunk(t.Context(), s.Options, *tries)
		t.Fatalf("%d histories; run one with -seed N -seeds 1; the shortest history found:\n%s", report.Histories+report.Skipped,
			shortest.Table())
	}
}

// Seeds that failed once are run again.
func TestSeedsThatHaveFailedPass(t *testing.T) {
	t.Parallel()
	stories, err := os.ReadFile("testdata/seeds.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(stories)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		number, story, _ := strings.Cut(strings.TrimSpace(line), " ")
		seed, err := strconv.ParseUint(number, 10, 64)
		require.NoError(t, err)
		require.NotEmpty(t, story)
		_, err = simulation.Run(t.Context(), simulation.Seeded(seed), simulation.Options{})
		require.NoError(t, err, "seed %d: %s", seed, story)
	}
}

func TestASeedGivesTheSameHistoryEveryTime(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{0, 1, 2, 3, 4, 63, 68} { // in the last two, an owner has objects of several kinds and of one name
		one, err := simulation.Run(t.Context(), simulation.Seeded(seed), simulation.Options{})
		require.NoError(t, err)
		other, err := simulation.Run(t.Context(), simulation.Seeded(seed), simulation.Options{})
		require.NoError(t, err)
		if diff := cmp.Diff(one, other); diff != "" {
			t.Fatalf("seed %d (-first +second):\n%s", seed, diff)
		}
	}
}

// A run may last for hours: what is broken is said when it is, and not only with the Report.
func TestABrokenInvariantIsPrintedAtOnceInOneLine(t *testing.T) {
	t.Parallel()
	var printed bytes.Buffer
	report, err := simulation.RunSeeds(t.Context(), simulation.Seeds{
		Count: 2, Workers: 1, Progress: &printed, Every: time.Hour,
		Options: simulation.Options{Steps: 1, Invariants: []simulation.Invariant{{
			Name: "there is no Machine",
			AfterWrite: func(_ *simulation.World, e simulation.Write) error {
				return errors.New("one is\n\tthere " + strings.Repeat("é", 500))
			},
		}}},
	})
	require.NoError(t, err)
	require.Len(t, report.Failed, 2)
	lines := strings.Split(strings.TrimSpace(printed.String()), "\n")
	require.Len(t, lines, 3, printed.String())
	for i, line := range lines[:2] {
		require.True(t, strings.HasPrefix(line, []string{"seed 0", "seed 1"}[i]+" fails: there is no Machine: one is there é"), line)
		require.LessOrEqual(t, len([]rune(line)), 300)
	}
	require.Contains(t, lines[2], "2 of 2 histories, 2 failed")
}
