package simulation_test

import (
	"bytes"
	"errors"
	"flag"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/internal/simulation"
)

var (
	first = flag.Uint64("seed", 0, "the first seed")
	seeds = flag.Uint64("seeds", 0, "how many seeds to run; 0 runs those of make test")
	steps = flag.Int("steps", 0, "how many things happen before the faults stop; 0 is the default of Options.Steps")
	needs = flag.String("needs", "", "traits of the World and faults, separated by commas, without which a history is not run")
	tries = flag.Int("shrink", 300, "how many histories may be run to find a shorter one; -1 stops at the first that fails")
)

func TestNoHistoryBreaksAnInvariant(t *testing.T) {
	t.Parallel()
	s := simulation.Seeds{
		From: *first, Count: *seeds, FailFast: *tries < 0, Options: simulation.Options{Steps: *steps},
	}
	stories := map[uint64]string{}
	if *needs != "" {
		s.Needs = strings.Split(*needs, ",")
	}
	if s.Count == 0 {
		s.Count, stories = usual, failedOnce(t)
		s.Also = slices.Sorted(maps.Keys(stories))
	} else {
		s.Progress = os.Stdout
	}
	report, err := simulation.RunSeeds(t.Context(), s)
	require.NoError(t, err)
	if *seeds > 1 {
		report.Print(os.Stdout)
		require.NoError(t, printNever(os.Stdout, report.Never(declaredReasons(t)), func(name string) bool { return !isBlock(name) }))
	}
	failed := slices.Sorted(maps.Keys(report.Failed))
	for _, seed := range failed {
		t.Errorf("seed %d: %s %s", seed, report.Failed[seed], stories[seed])
	}
	if len(failed) > 0 {
		t.Fatalf("%d histories; run one with -seed N -seeds 1; the shortest history found:\n%s", report.Histories+report.Unneeded,
			simulation.Shrunk(t.Context(), failed[0], s.Options, *tries).Table())
	}
	for _, name := range common() {
		require.True(t, *seeds > 0 || usual < 100 || report.Seen[name] > 0, "never: %s", name)
	}
}

// common is what the usual histories have: without it, many invariants would be kept because nothing happens.
func common() []string {
	return []string{
		"reason MachineSet ScalingUp MachinesNotShown", // a narrowed cache
		"reason Machine InfrastructureReady Ready", "reason Machine InfrastructureReady NotReady",
		"reason Machine InfrastructureReady ObjectDeleted", "reason Machine BootstrapConfigReady Ready",
		"reason Machine Deleting WaitingForInfrastructureDeletion",
	}
}

// failedOnce returns the stories of seeds that have failed once.
func failedOnce(t *testing.T) map[uint64]string {
	t.Helper()
	text, err := os.ReadFile("testdata/seeds.txt")
	require.NoError(t, err)
	stories := map[uint64]string{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		number, story, _ := strings.Cut(strings.TrimSpace(line), " ")
		seed, err := strconv.ParseUint(number, 10, 64)
		require.NoError(t, err)
		require.NotEmpty(t, story)
		stories[seed] = story
	}
	return stories
}

func TestASeedGivesTheSameHistoryEveryTime(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{0, 1, 3, 4, 5, 63, 68} { // in the last two, an owner has objects of several kinds and of one name
		one, err := simulation.Run(t.Context(), simulation.Seeded(seed), simulation.Options{})
		require.NoError(t, err)
		other, err := simulation.Run(t.Context(), simulation.Seeded(seed), simulation.Options{})
		require.NoError(t, err)
		if diff := cmp.Diff(one, other); diff != "" {
			t.Fatalf("seed %d (-first +second):\n%s", seed, diff)
		}
	}
}

// breaking returns options with an invariant that a write breaks.
func breaking(write func(simulation.Write) bool) simulation.Options {
	return simulation.Options{Steps: 20, Invariants: []simulation.Invariant{{
		Name: "nothing is written",
		AfterWrite: func(_ *simulation.World, e simulation.Write) error {
			if write(e) {
				return errors.New("one is\n\twritten " + strings.Repeat("é", 500))
			}
			return nil
		},
	}}}
}

func TestRunSeeds(t *testing.T) {
	t.Parallel()
	t.Run("prints a broken invariant at once and in one line", func(t *testing.T) {
		t.Parallel()
		var printed bytes.Buffer
		report, err := simulation.RunSeeds(t.Context(), simulation.Seeds{
			Count: 2, Also: []uint64{7}, Progress: &printed, Options: breaking(func(simulation.Write) bool { return true }),
		})
		require.NoError(t, err)
		require.Equal(t, []uint64{0, 1, 7}, slices.Sorted(maps.Keys(report.Failed)))
		lines := strings.Split(strings.TrimSpace(printed.String()), "\n")
		require.Len(t, lines, 4, printed.String())
		for _, line := range lines[:3] {
			require.Regexp(t, `^seed [017] fails: nothing is written: one is written é`, line)
			require.LessOrEqual(t, len([]rune(line)), 300)
		}
		require.Contains(t, lines[3], "3 of 3 histories, 3 failed")
	})
	t.Run("counts a history without what is needed and does not run it", func(t *testing.T) {
		t.Parallel()
		options := simulation.Options{Steps: 1}
		both := []string{"health check", "templates"} // it never has both
		for _, needs := range [][]string{both, both[:1]} {
			report, err := simulation.RunSeeds(t.Context(), simulation.Seeds{Count: 30, Needs: needs, Options: options})
			require.NoError(t, err)
			require.Empty(t, report.Failed)
			require.Equal(t, len(needs) == 1, report.Histories > 0)
			require.NotZero(t, report.Unneeded)
			require.Equal(t, uint64(30), report.Unneeded+report.Histories)
		}
	})
	t.Run("refuses what no history has", func(t *testing.T) {
		t.Parallel()
		_, err := simulation.RunSeeds(t.Context(), simulation.Seeds{Needs: []string{string(simulation.Lag), "luck"}})
		require.EqualError(t, err, `no history has "luck": name a trait of the World or a fault`)
	})
}

func TestShrunk(t *testing.T) {
	t.Parallel()
	options := breaking(func(e simulation.Write) bool { return e.After.GetKind() == "Machine" && e.Removed })
	whole, shortest := simulation.Shrunk(t.Context(), 3, options, 0), simulation.Shrunk(t.Context(), 3, options, 200)
	require.NotZero(t, whole.Faults)
	require.Zero(t, shortest.Faults)
	require.Less(t, len(shortest.Choices), len(whole.Choices))
	_, err := simulation.Run(t.Context(), simulation.Replayed(shortest.Choices), options)
	require.EqualError(t, err, shortest.Error())
}
