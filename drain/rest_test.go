package drain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRest(t *testing.T) {
	for reason, want := range map[Reason][]time.Duration{ // after 1, 2 and 60 times
		ReasonBudgetExhausted:   {15 * time.Second, 15 * time.Second, 15 * time.Second},
		ReasonBudgetNeverAllows: {time.Minute, 2 * time.Minute, 5 * time.Minute},
		ReasonMultipleBudgets:   {time.Minute, 2 * time.Minute, 5 * time.Minute},
		ReasonBudgetStale:       {10 * time.Second, 10 * time.Second, 10 * time.Second},
		ReasonForbidden:         {15 * time.Second, 30 * time.Second, 5 * time.Minute},
		ReasonAdmissionDenied:   {15 * time.Second, 30 * time.Second, 5 * time.Minute},
		ReasonServerError:       {time.Second, 2 * time.Second, time.Minute},
		ReasonUnknownOutcome:    {time.Second, 2 * time.Second, 30 * time.Second},
		ReasonConflict:          {time.Second, 2 * time.Second, 2 * time.Second},
		ReasonRespawned:         {5 * time.Second, 10 * time.Second, 5 * time.Minute},
	} {
		t.Run(string(reason), func(t *testing.T) {
			for i, times := range []int{1, 2, 60} {
				require.Equal(t, want[i], Rest(reason, want[0], times))
			}
		})
	}
	require.Equal(t, time.Hour, Rest(ReasonServerError, time.Hour, 3), "what the API server asks for is never shortened")
}
