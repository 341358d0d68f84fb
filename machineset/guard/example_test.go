package guard_test

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
)

// Instances that belong to objects of another controller on the same account are no orphans.
func ExampleSource() {
	others := func(context.Context) ([]guard.Owner, error) {
		return []guard.Owner{{UID: "their-token", Cluster: "default/demo", Name: "gateway", ProviderID: "aws:///eu-1a/i-1"}}, nil
	}
	_ = guard.CollectorOptions{Sources: []guard.Source{others}} // beside guard.MachinesOf
	// Output:
}

// Report instances without a Machine. With Delete they are deleted after several confirmations.
func ExampleNewCollector() {
	_ = func(mgr ctrl.Manager, machines contract.Kind, driver provider.Driver) error {
		gate, err := guard.NewGate(guard.GateOptions{Management: guard.Answers(mgr.GetAPIReader(), machines, "default")})
		if err != nil {
			return err
		}
		collector, err := guard.NewCollector(guard.CollectorOptions{
			Calls: provider.Of(driver), Gate: gate, Sources: []guard.Source{guard.MachinesOf(mgr.GetAPIReader(), machines)},
		})
		return errors.Join(err, mgr.Add(gate), mgr.Add(collector))
	}
	// Output:
}
