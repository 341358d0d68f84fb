package phases_test

import (
	"fmt"
	"os"

	"github.com/machinist-dev/machinist/phases"
)

// Walk through the life of a Machine.
func ExampleCompute() {
	facts := phases.Facts{}
	show := func() {
		d := phases.Compute(facts)
		fmt.Printf("%s (%s), waits for %q\n", d.Phase, d.Reason, d.Waiting)
	}
	show()
	facts.BootstrapReady = true
	show()
	facts.InfrastructureReady, facts.HasProviderID = true, true
	show()
	facts.HasNode = true
	show()
	facts.Deleting = true
	show()
	// Output:
	// Pending (WaitingForBootstrapData), waits for "BootstrapData"
	// Provisioning (BootstrapDataCreated), waits for "Infrastructure"
	// Provisioned (InfrastructureProvisioned), waits for "Node"
	// Running (NodeJoined), waits for ""
	// Deleting (DeletionRequested), waits for "Deletion"
}

// Put a rule of your own in front of Cluster API's.
func ExampleNew() {
	booting := phases.Rule{
		Decision: phases.Decision{Phase: "Booting", Reason: "NoNodeYet", Waiting: phases.GateNode},
		When:     func(f phases.Facts) bool { return f.InfrastructureReady && !f.HasNode && !f.Deleting },
	}
	table, err := phases.New(append([]phases.Rule{booting}, phases.ClusterAPI().Rules()...)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(table.Compute(phases.Facts{BootstrapReady: true, InfrastructureReady: true, HasProviderID: true}).Phase)
	// Output: Booting
}

// Draw the diagram, for documentation that cannot be out of date.
func ExampleTable_WriteMermaid() {
	_ = phases.ClusterAPI().WriteMermaid(os.Stdout)
	// Output:
	// stateDiagram-v2
	//     [*] --> Pending
	//     Pending --> Deleting: deletion requested
	//     Pending --> Provisioned: infrastructure provisioned
	//     Pending --> Provisioning: bootstrap data created
	//     Provisioned --> Deleting: deletion requested
	//     Provisioned --> Running: Node joined
	//     Provisioning --> Deleting: deletion requested
	//     Provisioning --> Provisioned: infrastructure provisioned
	//     Running --> Deleting: deletion requested
	//     Deleting --> [*]: everything cleaned up
}
