package simulation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/internal/simulation"
)

func TestAHistoryWithoutWhatIsNeededIsCountedAndNotRun(t *testing.T) {
	t.Parallel()
	seeds := simulation.Seeds{Count: 30, Needs: []string{simulation.NeedsHealthCheck, simulation.NeedsTemplates}} // it never has both
	report, err := simulation.RunSeeds(t.Context(), seeds)
	require.NoError(t, err)
	require.Equal(t, uint64(30), report.Skipped)
	require.Zero(t, report.Histories)

	seeds.Needs = []string{simulation.NeedsHealthCheck}
	seeds.Options.Steps = 1
	report, err = simulation.RunSeeds(t.Context(), seeds)
	require.NoError(t, err)
	require.Empty(t, report.Failed)
	require.NotZero(t, report.Skipped)
	require.NotZero(t, report.Histories)
	require.Equal(t, uint64(30), report.Skipped+report.Histories)
}

func TestANeedThatNoHistoryHasIsRefused(t *testing.T) {
	t.Parallel()
	_, err := simulation.RunSeeds(t.Context(), simulation.Seeds{Needs: []string{string(simulation.Lag), "luck"}})
	require.EqualError(t, err, `no history has "luck": name a part of the World or a fault`)
}
