package machine_test

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine"
)

// Machines whose owners are of kinds of your own, and those of Cluster API beside them, have the condition UpToDate.
func ExamplePorts() {
	_ = func(
		ports machine.Ports, standard *machine.Rollouts,
		mine func(context.Context, *contract.MachineState) (machine.Rollout, error), events func(machine.RolloutMapper) source.Source,
	) machine.Ports {
		ports.RolloutOf = func(ctx context.Context, m *contract.MachineState) (machine.Rollout, error) {
			if _, own := m.Labels["example.com/tenant"]; own {
				return mine(ctx, m)
			}
			return standard.Of(ctx, m)
		}
		ports.RolloutEvents = events
		return ports
	}
	// Output:
}
