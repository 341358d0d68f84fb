package simulation_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/machinist-dev/machinist/internal/simulation"
)

// An invariant of your own is checked after each write. This one is broken on purpose, and the history is shrunk.
func Example() {
	ctx := context.Background()
	options := simulation.Options{Invariants: []simulation.Invariant{{
		Name: "no Machine is ever deleted",
		AfterWrite: func(_ *simulation.World, e simulation.Write) error {
			if e.After.GetKind() == "Machine" && e.After.GetDeletionTimestamp() != nil {
				return errors.New("one is")
			}
			return nil
		},
	}}}
	report, err := simulation.RunSeeds(ctx, simulation.Seeds{Count: 2, Workers: 1, Options: options})
	if err != nil || report.First == nil {
		fmt.Println("no failure", err)
		return
	}
	shrunk := report.First.Shrunk(ctx, options, 200)
	fmt.Println(shrunk)
	fmt.Println("faults:", shrunk.Faults)
	// Output:
	// no Machine is ever deleted: one is
	// faults: 0
}
