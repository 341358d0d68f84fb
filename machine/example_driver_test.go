package machine_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
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
	tokens := machine.JoinTokens{}                // in the place of <<BOOTSTRAP_TOKEN>>
	classes := machine.MachineClasses{
		Classes: api, Secrets: api, Token: tokens.Token,
		Fallback: func(context.Context) (provider.Values, error) { return provider.Values{"token": nil}, nil },
	}
	steps := machine.WithDriver(machine.Steps(), machine.DriverOptions{
		Calls:     provider.Of(fake.NewDriver(fake.DriverOptions{})),
		RequestOf: classes.RequestOf, UserData: classes.UserData, WithoutBootstrap: true,
	})
	steps = machine.WithJoinTokens(steps, tokens)
	fmt.Println(len(steps) - len(machine.Steps()))
	// Output: 1
}

// The instances of a Driver boot with what a bootstrap provider of Cluster API has made.
func ExampleBootstrapData() {
	api := fake.NewStore(fake.Options{}).Client() // of the manager: GetAPIReader()
	steps := machine.WithDriver(machine.Steps(), machine.DriverOptions{
		Calls: provider.Of(fake.NewDriver(fake.DriverOptions{})), UserData: machine.BootstrapData(api),
	})
	fmt.Println(len(steps) == len(machine.Steps()))
	// Output: true
}

// Machines contain their operating system, as Kubermatic's do, and join with a token of their own.
func ExampleProviderSpecs() {
	calls, tokens := provider.Of(fake.NewDriver(fake.DriverOptions{})), machine.JoinTokens{Life: time.Hour}
	specs := machine.ProviderSpecs{
		Config: func(_ context.Context, s *machine.Scope) (userdata.Config, error) {
			return userdata.Config{
				Version: "v1.36.3", // of Machines without one
				Cluster: userdata.Cluster{Server: "https://192.0.2.1:6443", CA: "-----BEGIN CERTIFICATE-----"},
				Node:    userdata.Node{Name: s.State.Key.Name},
				Network: &userdata.Network{Interface: "ens3"}, // for those with an address of their own
			}, nil
		},
		Token: tokens.Token, System: userdata.Builtin, CloudConfig: calls.GetCloudConfig,
		Credentials: func(*contract.MachineState) (string, provider.Credentials) {
			return "cloud", provider.FromEnvironment(map[string]string{"token": "CLOUD_TOKEN"}, os.LookupEnv)
		},
	}
	steps := machine.WithDriver(machine.Steps().Remove(machine.StepBootstrap), machine.DriverOptions{
		Calls: calls, RequestOf: specs.RequestOf, UserData: specs.UserData, WithoutBootstrap: true,
	})
	options := machine.Options{Steps: machine.WithJoinTokens(steps, tokens)}
	rights := machine.JoinTokenPolicyRules() // of a Role in kube-system of the cluster that the machines join
	fmt.Println(options.Steps[0].Name, rights[0].Resources)
	// Output: finalizer [secrets]
}

// bareMetal is what a step of an embedder asks for a machine.
type bareMetal struct {
	ID, IP, Rack, Host, HostUID, Broken string
	Gone, Off                           bool
}

// A step of your own in place of an infrastructure object and of the search for the Node: it records what it knows of the machine.
func ExampleScope() {
	rent := func(context.Context, string) (bareMetal, error) { return bareMetal{}, nil } // your own API
	own := func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
		found, err := rent(ctx, s.State.Key.Name)
		if err != nil {
			return machine.Result{}, err
		}
		s.SetFailure("", "")
		if found.Broken != "" {
			s.SetFailure("Broken", found.Broken)
		}
		s.SetDataSecretName(s.State.Key.Name + "-boot")
		s.SetBootstrapReady()
		s.SetProviderID("metal://" + found.ID)
		s.SetAddresses([]contract.Address{{Type: "InternalIP", Address: found.IP}})
		s.SetFailureDomain(found.Rack)
		s.SetInfrastructureReady()
		if s.NodesSynced && !s.Node.Found() && found.Host != "" {
			s.SetNode(contract.NodeRef{Name: found.Host, UID: types.UID(found.HostUID)})
		}
		return machine.Result{}, nil
	}
	steps := machine.Steps().InsertAfter(machine.StepNode, machine.Step{Name: "metal", On: pass.InRunning, Run: own})
	fmt.Println(len(steps) - len(machine.Steps()))
	// Output: 1
}

// In a deletion, a step of your own says what is known of the machine while its Nodes cannot be read: a drain does not wait for one that no
// longer exists.
func ExampleScope_deletion() {
	look := func(context.Context, string) (bareMetal, error) { return bareMetal{}, nil } // your own API
	ask := machine.Step{Name: "ask", On: pass.InDeletion, Run: func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
		if s.NodesErr == nil {
			return machine.Result{}, nil
		}
		found, err := look(ctx, s.State.Key.Name)
		s.InstanceGone, s.PoweredOff = found.Gone, found.Off
		return machine.Result{}, err
	}}
	steps := machine.Steps().InsertBefore(machine.StepDrain, ask)
	fmt.Println(len(steps) - len(machine.Steps()))
	// Output: 1
}
