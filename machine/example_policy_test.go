package machine_test

import (
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
)

// A policy replaces one decision and leaves the others, and the cases that it does not care about, as they are.
func ExamplePolicy() {
	policy := machine.Policy{
		NodeCare: func(f machine.NodeCareFacts) (machine.NodeCare, machine.CareReason) {
			if f.HasNode && !f.Cluster.State.Deleting.IsZero() {
				return machine.CareDrainAndDelete, "databases here outlive their clusters"
			}
			return machine.DefaultNodeCare(f)
		},
		Limits: func(m *contract.MachineState) machine.Limits {
			limits := machine.DefaultLimits(m)
			limits.PreDrainHooks = time.Hour
			return limits
		},
	}
	goes := external.ClusterView{Presence: external.Present}
	goes.State.Deleting = time.Unix(1, 0)
	fmt.Println(policy.NodeCare(machine.NodeCareFacts{Cluster: goes, HasNode: true}))
	fmt.Println(policy.NodeCare(machine.NodeCareFacts{Cluster: goes}))
	fmt.Printf("%+v\n", policy.Limits(&contract.MachineState{}))
	// Output:
	// CareDrainAndDelete databases here outlive their clusters
	// CareNone the Machine has no Node
	// {PreDrainHooks:1h0m0s PreTerminateHooks:0s Drain:0s Volumes:0s NodeDeletion:10s}
}
