package machine_test

import (
	"context"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/machine"
)

// A stage of your own in a deletion: a backup of the machine before its drain, for ten minutes at most. The annotation of a person leaves it
// out, and a Machine that never got a Node has nothing to back up.
func ExampleStage() {
	backup := func(context.Context, string) (done bool, err error) { return true, nil } // your own API
	stage := machine.Stage{
		Name: "backup", Reason: "BackingUp",
		Excluded: func(s *machine.Scope) string {
			if s.State.Annotations["example.com/no-backup"] != "" {
				return "the Machine has the annotation example.com/no-backup"
			}
			return ""
		},
		Limit: func(*machine.Scope) time.Duration { return 10 * time.Minute },
		Needs: func(s *machine.Scope) string {
			if !s.NodesSynced {
				return "the Nodes could not be read yet"
			}
			return ""
		},
		Run: func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
			done, err := backup(ctx, s.State.ProviderID)
			if err != nil || done {
				return machine.Result{}, err
			}
			wait := s.Wait("BackingUp", "The backup is under way")
			wait.RequeueAfter = 30 * time.Second
			return wait, nil
		},
	}
	steps := machine.Steps().InsertBefore(machine.StepDrain, stage.Step())
	fmt.Println(len(steps) - len(machine.Steps()))
	// Output: 1
}
