package machine_test

import (
	"context"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
)

// A Driver takes the place of infrastructure objects: here, of Machines whose specification is inside the Machine.
func ExampleWithDriver() {
	calls := provider.Of(fake.NewDriver(fake.DriverOptions{}), // the driver of a cloud
		provider.Timeout(time.Minute),
		provider.RateLimit(provider.RateLimitOptions{PerSecond: 20}),
		provider.Cache(provider.CacheOptions{}))
	steps := machine.WithDriver(machine.Steps(), machine.DriverOptions{
		Calls: calls,
		RequestOf: func(_ context.Context, m *contract.MachineState) (provider.Request, error) {
			return provider.Request{
				Spec: m.Provider.Spec, Account: m.Key.Namespace + "/cloud",
				Credentials: func(context.Context) (provider.Values, error) { return provider.Values{"token": nil}, nil },
			}, nil
		},
	})
	options := machine.Options{Steps: steps}
	fmt.Println(len(options.Steps) == len(machine.Steps()))
	// Output: true
}

// The classes of Gardener's Machines, and the Secrets that they name, are the input of a Driver. Where a class is gone, its instance is
// deleted with other credentials.
func ExampleMachineClasses() {
	api := fake.NewStore(fake.Options{}).Client() // of the manager: its cache, and its client
	classes := machine.MachineClasses{
		Classes: api, Secrets: api,
		Fallback: func(context.Context) (provider.Values, error) { return provider.Values{"token": nil}, nil },
	}
	steps := machine.WithDriver(machine.Steps(), machine.DriverOptions{
		Calls:     provider.Of(fake.NewDriver(fake.DriverOptions{})),
		RequestOf: classes.RequestOf, UserData: classes.UserData, WithoutBootstrap: true,
	})
	fmt.Println(len(steps) == len(machine.Steps()))
	// Output: true
}
