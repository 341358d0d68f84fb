package provider_test

import (
	"context"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/provider"
)

// Credentials are read from a Secret, each time that the Driver needs them.
func ExampleFromSecret() {
	read := func(_ context.Context, namespace, name string) (map[string][]byte, bool, error) { // from a cache
		return map[string][]byte{"token": []byte("s3cret")}, true, nil
	}
	r := provider.Request{Account: "default/cloud", Credentials: provider.FromSecret("default", "cloud", read)}
	fmt.Println(r.Credentials.Read(context.Background()))
	// Output:
	// credentials [token] <nil>
}

// A Driver is used through its Calls, which keep to the rate of each account and say how long to wait after an error.
func Example() {
	ctx := context.Background()
	calls := provider.Of(fake.NewDriver(fake.DriverOptions{Quota: 1}),
		provider.Timeout(30*time.Second),
		provider.RateLimit(provider.RateLimitOptions{PerSecond: 20, Burst: 20}),
		provider.Cache(provider.CacheOptions{}))

	spec, _ := calls.AddDefaults([]byte(`{}`)) // in memory: who writes defaults into objects is the caller's choice
	for _, token := range []string{"uid-1", "uid-1", "uid-2"} {
		instance, err := calls.Create(ctx, provider.Request{Token: token, Spec: spec, Account: "default/cloud"})
		if err != nil {
			wait, parked := provider.DefaultBackoff().After(err, 1, 0)
			fmt.Println(token, "waits", wait, parked, err)
			continue
		}
		fmt.Println(token, "is", instance.ProviderID, instance.State)
	}
	// Output:
	// uid-1 is fake://1 Running
	// uid-1 is fake://1 Running
	// uid-2 waits 1m0s false the quota of 1 instances is used up
}
