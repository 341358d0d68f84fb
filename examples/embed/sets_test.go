package main

import (
	"context"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machineset"
)

// changesAllowed reports whether the site allows changes now.
func changesAllowed() bool { return false }

// maintenance returns a step that ends each pass while the site allows no changes. P is the Scope of any kind.
func maintenance[P any]() pass.Step[P] {
	return pass.Step[P]{Name: "maintenance", On: pass.InRunning, Run: func(context.Context, P) (pass.Result, error) {
		if changesAllowed() {
			return pass.Result{}, nil
		}
		return pass.Result{Stop: true, RequeueAfter: time.Minute}, nil
	}}
}

// One step stands in the list of boxes and in that of sets.
func Example_maintenance() {
	boxes := machine.Steps().InsertBefore(machine.StepBootstrap, maintenance[*machine.Scope]())
	sets := machineset.Steps().InsertBefore(machineset.StepScale, maintenance[*machineset.Scope]())
	fmt.Println(boxes[3].Name, sets[6].Name)
	// Output: maintenance maintenance
}
