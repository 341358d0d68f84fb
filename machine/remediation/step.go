package remediation

import (
	"context"

	"github.com/machinist-dev/machinist/internal/engine"
)

// result says how a pass continues after a step.
type result = engine.Result

// steps returns the steps of a health check, in order:
//
//   - paused ends the pass of a check that is paused, or whose Cluster was not read or does not exist;
//   - cluster sets the label and the owner reference of the Cluster;
//   - machines reads the Machines and their Nodes, and judges them;
//   - plan decides what happens to them, and stores the ledger;
//   - remediate writes the conditions of Machines, and creates and deletes requests for external remediation;
//   - status sets the status of the check.
func steps() []engine.Step[*scope] {
	return engine.Standard([]engine.Step[*scope]{
		{Name: "paused", On: engine.InRunning, ObjectOnly: true, Run: func(_ context.Context, s *scope) (result, error) {
			return s.StopIfPaused()
		}},
		{Name: "cluster", On: engine.InRunning, ObjectOnly: true, Run: func(ctx context.Context, s *scope) (result, error) {
			return result{}, s.JoinCluster(ctx)
		}},
		{Name: "machines", On: engine.InRunning, Run: machinesStep},
		{Name: "plan", On: engine.InRunning, Run: planStep},
		{Name: "remediate", On: engine.InRunning, Run: remediateStep},
		{Name: "status", On: engine.InRunning, Closing: true, Run: statusStep},
	})
}
