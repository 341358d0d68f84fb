package simulation_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/fake/simulation"
)

// A run may last for hours: what is broken is said when it is, and not only with the Report.
func TestABrokenInvariantIsPrintedAtOnceInOneLine(t *testing.T) {
	t.Parallel()
	var printed bytes.Buffer
	report, err := simulation.RunSeeds(t.Context(), simulation.Seeds{
		Count: 2, Workers: 1, Progress: &printed, Every: time.Hour, Clock: clocktesting.NewFakeClock(time.Now()),
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
