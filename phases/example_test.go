package phases_test

import (
	"fmt"

	"github.com/machinist-dev/machinist/phases"
)

// Walk through the life of a Machine.
func ExampleTable_Compute() {
	facts := phases.Facts{}
	show := func() {
		d := phases.ClusterAPI().Compute(facts)
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
	booting := phases.Rule[phases.Facts]{
		Decision: phases.Decision{Phase: "Booting", Reason: "NoNodeYet", Waiting: phases.GateNode},
		When:     func(f phases.Facts) bool { return f.HasProviderID && !f.HasNode && !f.Deleting },
	}
	table, err := phases.New(append([]phases.Rule[phases.Facts]{booting}, phases.ClusterAPI().Rules()...)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(table.Compute(phases.Facts{BootstrapReady: true, InfrastructureReady: true, HasProviderID: true}).Phase)
	// Output: Booting
}
