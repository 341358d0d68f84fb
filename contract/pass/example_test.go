package pass_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

// greeting is a step for values of any kind; in your operator the list is machine.Steps() and P is *machine.Scope.
func greeting(word string) pass.Step[string] {
	return pass.Step[string]{Name: word, On: pass.InRunning, Run: func(_ context.Context, name string) (pass.Result, error) {
		fmt.Println(word, name) //nolint:forbidigo // an example shows what it does
		return pass.Result{}, nil
	}}
}

// A step of your own runs between the standard ones, whatever the kind is.
func ExampleSteps_InsertBefore() {
	steps := pass.Steps[string]{greeting("good morning"), greeting("goodbye")}
	for _, s := range steps.InsertBefore("goodbye", greeting("hello")) {
		fmt.Println(s.Name)
	}
	// Output:
	// good morning
	// hello
	// goodbye
}

// A step for objects of every kind takes the part of the scope that all kinds share.
func ExampleScope() {
	_ = func(s *pass.Scope[contract.MachineState, contract.MachineUpdate]) pass.StepFunc[string] {
		return func(context.Context, string) (pass.Result, error) {
			return pass.Result{Stop: s.IsTrue("QuotaExceeded")}, nil
		}
	}
	// Output:
}

// Clusters of a kind of your own. What your registry does not have is pass.Unread, not pass.Absent, until the registry is complete.
func ExamplePorts() {
	_ = func(
		ports pass.Ports, find func(types.NamespacedName) (contract.ClusterState, pass.Presence), events func(pass.ClusterMapper) source.Source,
	) pass.Ports {
		ports.ClusterOf = func(_ context.Context, key types.NamespacedName) (pass.ClusterView, error) {
			state, presence := find(key)
			return pass.ClusterView{Presence: presence, State: state}, nil
		}
		ports.ClusterEvents = events
		return ports
	}
	// Output:
}

// Each step gets a span of your own tracer around it, and stays the standard one.
func ExampleStep_tracer() {
	steps := []pass.Step[string]{greeting("hello")}
	for i := range steps {
		step, run := steps[i].Name, steps[i].Run
		steps[i].Run = func(ctx context.Context, name string) (pass.Result, error) {
			fmt.Println("begin", step) // OpenTelemetry: ctx, span := tracer.Start(ctx, step)
			defer fmt.Println("end", step)
			return run(ctx, name)
		}
	}
	_, err := steps[0].Run(context.Background(), "m1")
	fmt.Println(err)
	// Output:
	// begin hello
	// hello m1
	// end hello
	// <nil>
}

// The ports of every kind begin with those of the manager, and with its Clusters where there are any.
func ExamplePortsFromManager() {
	_ = func(mgr ctrl.Manager) (pass.Ports, error) {
		ports := pass.PortsFromManager(mgr)
		clusters, err := pass.ClustersFromManager(mgr, pass.ClusterOptions{})
		if err != nil {
			return ports, err
		}
		ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
		return ports, nil
	}
	// Output:
}
