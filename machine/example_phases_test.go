package machine_test

import (
	"context"
	"fmt"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/phases"
)

// The phases are Kubermatic's, and the spec counts as valid as soon as a step of the embedder has said so.
func ExamplePhaseStep() {
	facts := func(s *machine.Scope) phases.KubermaticFacts {
		f := machine.KubermaticFacts(s)
		accepted, _ := s.Condition("SpecAccepted")
		f.Valid = f.Valid || accepted.Status == "True"
		return f
	}
	steps := machine.Steps().Replace(machine.StepPhase, machine.PhaseStep(phases.Kubermatic(), facts)).
		InsertAfter(machine.StepPhase, machine.Step{
			Name: "explain", On: pass.InBoth, Closing: true, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
				fmt.Printf("%s is %s and waits for %s\n", s.State.Key, s.Phase.Phase, s.Phase.Waiting)
				return machine.Result{}, nil
			},
		})
	fmt.Println(len(steps) - len(machine.Steps()))
	// Output: 1
}

// The phases of Cluster API v0.3, for the tools that know them.
func ExampleClusterAPIFacts() {
	steps := machine.Steps().Replace(machine.StepPhase,
		machine.PhaseStep(phases.ClusterAPIV1Alpha3(), machine.ClusterAPIFacts))
	fmt.Println(len(steps) == len(machine.Steps()))
	// Output: true
}
