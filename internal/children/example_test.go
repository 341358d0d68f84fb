package children_test

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// An owner of Machines sums them up for its status.
func ExampleSummary() {
	ready := &contract.MachineState{Conditions: []metav1.Condition{{Type: contract.ConditionReady, Status: metav1.ConditionTrue}}}
	starting := &contract.MachineState{Conditions: []metav1.Condition{
		{Type: contract.ConditionReady, Status: metav1.ConditionFalse, Message: "waiting for a Node"},
	}}
	ready.Key.Name, starting.Key.Name = "workers-1", "workers-2"
	summary := children.Summary{
		Desired: contract.Some(int32(3)), Machines: []*contract.MachineState{ready, starting}, Now: time.Unix(0, 0),
	}
	for _, c := range summary.Conditions()[:3] {
		fmt.Printf("%s %s %s: %q\n", c.Type, c.Status, c.Reason, c.Message)
	}
	numbers, _ := summary.Count()
	fmt.Println(numbers.Ready, "of", numbers.Replicas, "are ready")
	// Output:
	// ScalingUp True ScalingUp: "Scaling up from 2 to 3 replicas"
	// ScalingDown False NotScalingDown: ""
	// MachinesReady False NotReady: "* Machine workers-2: waiting for a Node"
	// 1 of 2 are ready
}

// A deployment that wants one more MachineSet, after Observe: the slot and its name are stored before anything is created.
func ExampleScope() {
	type sets = children.Scope[contract.MachineDeploymentState, contract.MachineDeploymentUpdate,
		contract.MachineSetState, contract.MachineSetUpdate]
	one := func(ctx context.Context, s *sets, naming scale.Naming, create children.Make) error {
		if err := s.AwaitRestored(ctx, 1); err != nil {
			return err
		}
		next := s.Settle()
		if len(s.Holds) > 0 || (len(s.Own) > 0 && len(next.Pending) == 0) {
			return s.WriteLedger(ctx, next)
		}
		return s.Grow(ctx, next, max(0, 1-len(next.Pending)), naming, create)
	}
	fmt.Println(one != nil, children.NotRestored("MachineSet"))
	// Output: true MachineSetsNotRestored
}
