package machinepool

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

func TestAMachineThatWasMadeIsMissedAfterAWhile(t *testing.T) {
	p, _ := acting(t, &api{})
	var asked []string
	p.env.options.Parallel = 1
	p.env.kinds.NewMachine = func(s Seed) (contract.Object, error) {
		asked = append(asked, s.Key.Name)
		return nil, errors.New("no")
	}
	now := p.Now
	p.mem().made = map[string]time.Time{"just": now, "before": now.Add(-20 * time.Second), "long ago": now.Add(-madeGrace)}
	require.Error(t, p.createMachines(t.Context(), []string{"before", "just", "long ago", "never"}))
	require.Equal(t, []string{"long ago", "never"}, asked)
	require.Equal(t, map[string]time.Time{"just": now, "before": now.Add(-20 * time.Second)}, p.mem().made)
	require.LessOrEqual(t, p.RequeueAfter(), madeGrace)
	require.NotZero(t, p.RequeueAfter())
}
