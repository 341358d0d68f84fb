package machinepool_test

import (
	"testing"

	"github.com/machinist-dev/machinist/fake"
)

func TestARestartChangesNothing(t *testing.T) {
	t.Parallel()
	for name, provider := range map[string]*fake.PoolInfrastructure{
		"instances alone":         {},
		"instances with Machines": {Machines: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOptions{provider: provider})
			pool := w.poolWith(2)
			if provider.Machines {
				w.eventually("two Machines", func() string {
					if len(w.machines()) != 2 {
						return "there are others"
					}
					return ""
				})
				for _, m := range w.machines() {
					w.lead(&m, is("Ready", "True"), is("Available", "True"))
				}
			}
			w.reports(pool, "Running", 2, 2)
			w.isQuiet()
			w.restart(w.store.ResetRequests)
			w.settles()
			if got := w.writes(); len(got) > 0 {
				t.Errorf("nothing is new, got %v", got)
			}
		})
	}
}
