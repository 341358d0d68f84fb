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

// Draw the diagram, for documentation that cannot be out of date.
func ExampleTable_WriteMermaid() {
	_ = phases.ClusterAPI().WriteMermaid(os.Stdout, phases.ClusterAPILife())
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
	//     Running --> Updating: update in place begun
	//     Updating --> Deleting: deletion requested
	//     Updating --> Running: update in place done
	//     Deleting --> [*]: everything cleaned up
}

// Make a dialect over facts of your own, beginning with Cluster API's.
func ExampleOver() {
	type facts struct {
		phases.Facts
		Calibrated bool
	}
	calibrating := phases.Rule[facts]{
		Decision: phases.Decision{Phase: "Calibrating", Reason: "SensorsNotCalibrated", Waiting: "Calibration"},
		When:     func(f facts) bool { return f.HasNode && !f.Calibrated && !f.Deleting },
	}
	rules := phases.Over(func(f facts) phases.Facts { return f.Facts }, phases.ClusterAPI().Rules()...)
	table, err := phases.New(append([]phases.Rule[facts]{calibrating}, rules...)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	f := facts{Facts: phases.Facts{InfrastructureReady: true, HasNode: true}}
	fmt.Println(table.Compute(f).Phase)
	f.Calibrated = true
	fmt.Println(table.Compute(f).Phase)
	// Output:
	// Calibrating
	// Running
}
