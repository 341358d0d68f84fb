package guard_test

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/machineset/safety"
)

// Freeze sets that overshoot, in a manager that you already have.
func ExampleNewFreezer() {
	_ = func(ctx context.Context, mgr ctrl.Manager, kinds guard.Kinds) error {
		freezer, err := guard.NewFreezer(kinds, pass.PortsFromManager(mgr), guard.FreezerOptions{
			Limits: safety.Limits{Up: 2, Down: 1}, Recorder: mgr.GetEventRecorder("machine-safety"),
		})
		if err != nil {
			return err
		}
		return freezer.AddToManager(ctx, mgr)
	}
	// Output:
}

// Report instances without a Machine. With Delete they are deleted after several confirmations.
func ExampleNewCollector() {
	_ = func(mgr ctrl.Manager, kinds guard.Kinds, driver provider.Driver) error {
		gate, err := guard.NewGate(guard.GateOptions{Management: guard.Answers(mgr.GetAPIReader(), kinds.Machine, "default")})
		if err != nil {
			return err
		}
		collector, err := guard.NewCollector(guard.CollectorOptions{
			Calls: provider.Of(driver), Gate: gate, Sources: []guard.Source{guard.MachinesOf(mgr.GetAPIReader(), kinds.Machine)},
		})
		return errors.Join(err, mgr.Add(gate), mgr.Add(collector))
	}
	// Output:
}
