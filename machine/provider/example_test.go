package provider_test

import (
	"context"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
)

// regional is a Driver whose kubelets need a configuration of the cloud.
type regional struct{ *fake.Driver }

var _ provider.CloudConfigurer = regional{}

func (regional) GetCloudConfig(_ context.Context, r provider.Request) (userdata.File, error) {
	content := fmt.Sprintf("[global]\ncluster = %q\n", r.Cluster)
	return userdata.File{Path: "/etc/kubernetes/cloud-config", Content: userdata.NewSecret(content)}, nil
}

// First-boot data has a file for the cloud's own programs on the machine, which the Driver writes; machine.ProviderSpecs put it there.
func ExampleCloudConfigurer() {
	calls := provider.Of(regional{fake.NewDriver(fake.DriverOptions{})})
	if calls.GetCloudConfig == nil {
		fmt.Println("the Driver has none")
		return
	}
	file, err := calls.GetCloudConfig(context.Background(), provider.Request{Token: "uid-1", Cluster: "c1"})
	fmt.Println(file.Path, file.Content, err)
	// Output: /etc/kubernetes/cloud-config REDACTED <nil>
}

// Credentials of a Secret, or else of the environment, or else of the instance that the operator runs on.
func ExampleFirstOf() {
	secret := func(context.Context, string, string) (map[string][]byte, bool, error) { return nil, false, nil } // from a cache
	ask := func(context.Context, string) ([]byte, error) { return []byte("s3cret"), nil }                       // an HTTP GET
	credentials := provider.FirstOf(
		provider.FromSecret("default", "cloud", secret),
		provider.FromEnvironment(map[string]string{"token": "CLOUD_TOKEN"}, func(string) (string, bool) { return "", false }),
		provider.FromMetadata(map[string]string{"token": "/iam/token"}, ask))
	fmt.Println(credentials.Read(context.Background()))
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
			fmt.Println(token, "waits", provider.DefaultBackoff().After(err, 1, 0), err)
			continue
		}
		fmt.Println(token, "is", instance.ProviderID, instance.State)
	}
	// Output:
	// uid-1 is fake://1 Running
	// uid-1 is fake://1 Running
	// uid-2 waits 1m0s the quota of 1 instances is used up
}
