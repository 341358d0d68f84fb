package machine_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machine"
)

// bareMetal is what a step of an embedder asks for a machine.
type bareMetal struct {
	ID, IP, Rack, Host, HostUID, Broken string
	Gone, Off                           bool
}

// A step of your own in place of an infrastructure object and of the search for the Node: it records what it knows of the machine.
func ExampleScope() {
	rent := func(context.Context, string) (bareMetal, error) { return bareMetal{}, nil } // your own API
	own := func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
		found, err := rent(ctx, s.State.Key.Name)
		if err != nil {
			return machine.Result{}, err
		}
		s.SetFailure("", "")
		if found.Broken != "" {
			s.SetFailure("Broken", found.Broken)
		}
		s.SetDataSecretName(s.State.Key.Name + "-boot")
		s.SetBootstrapReady()
		s.SetProviderID("metal://" + found.ID)
		s.SetAddresses([]contract.Address{{Type: "InternalIP", Address: found.IP}})
		s.SetFailureDomain(found.Rack)
		s.SetInfrastructureReady()
		if s.NodesSynced && !s.Node.Found() && found.Host != "" {
			s.SetNode(contract.NodeRef{Name: found.Host, UID: types.UID(found.HostUID)})
		}
		return machine.Result{}, nil
	}
	steps := machine.Steps().InsertAfter(machine.StepNode, machine.Step{Name: "metal", On: pass.InRunning, Run: own})
	fmt.Println(len(steps) - len(machine.Steps()))
	// Output: 1
}

// In a deletion, a step of your own says what is known of the machine while its Nodes cannot be read: a drain does not wait for one that no
// longer exists.
func ExampleScope_deletion() {
	look := func(context.Context, string) (bareMetal, error) { return bareMetal{}, nil } // your own API
	ask := machine.Step{Name: "ask", On: pass.InDeletion, Run: func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
		if s.NodesErr == nil {
			return machine.Result{}, nil
		}
		found, err := look(ctx, s.State.Key.Name)
		s.InstanceGone, s.PoweredOff = found.Gone, found.Off
		return machine.Result{}, err
	}}
	steps := machine.Steps().InsertBefore(machine.StepDrain, ask)
	fmt.Println(len(steps) - len(machine.Steps()))
	// Output: 1
}
