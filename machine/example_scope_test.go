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
type bareMetal struct{ ID, IP, Rack, Host, HostUID, Broken string }

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
