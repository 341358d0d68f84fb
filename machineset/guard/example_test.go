package guard_test

import (
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
)

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
