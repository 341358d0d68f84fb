package engine_test

import (
	"context"
	"fmt"

	"github.com/machinist-dev/machinist/internal/engine"
)

// A step of your own stands between the standard ones, whatever the kind is.
func ExampleSteps_InsertBefore() {
	steps := standard().InsertBefore("finalizer", engine.Step[*scope]{
		Name: "quota", On: engine.InRunning,
		Run: func(_ context.Context, s *scope) (engine.Result, error) {
			return engine.Result{Stop: s.IsTrue("QuotaExceeded")}, nil
		},
	})
	for _, s := range steps {
		fmt.Println(s.Name)
	}
	// Output:
	// paused
	// quota
	// finalizer
	// remove-finalizer
}

// Each step gets a span of your own tracer around it, and stays the standard one.
func ExampleStep_tracer() {
	greet := func(_ context.Context, name string) (engine.Result, error) {
		fmt.Println("hello", name)
		return engine.Result{}, nil
	}
	steps := engine.Standard([]engine.Step[string]{{Name: "greet", On: engine.InRunning, Run: greet}}) // in your operator: machine.Steps()
	for i := range steps {
		step, run := steps[i].Name, steps[i].Run
		steps[i].Run = func(ctx context.Context, name string) (engine.Result, error) {
			fmt.Println("begin", step) // OpenTelemetry: ctx, span := tracer.Start(ctx, step)
			defer fmt.Println("end", step)
			return run(ctx, name)
		}
	}
	_, err := steps[0].Run(context.Background(), "m1")
	fmt.Println(err, steps[0].IsStandard())
	// Output:
	// begin greet
	// hello m1
	// end greet
	// <nil> true
}
