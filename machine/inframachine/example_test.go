package inframachine_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/inframachine"
	"github.com/machinist-dev/machinist/machine/provider"
)

// A step of your own tags what the Driver has made, and the reconciler runs in a loop of yours.
func ExampleSteps() {
	tag := inframachine.Step{Name: "example.com/tag", On: pass.InRunning,
		Run: func(_ context.Context, s *inframachine.Scope) (inframachine.Result, error) {
			s.Update.Annotations = map[string]contract.Change[string]{"example.com/instance": contract.SetTo(s.State.ProviderID)}
			return inframachine.Result{}, nil
		}}
	steps := inframachine.Steps().InsertAfter(inframachine.StepInstance, tag)
	_ = func(ctx context.Context, mgr ctrl.Manager, kinds inframachine.Kinds, calls provider.Calls) (*inframachine.Reconciler, error) {
		r, err := inframachine.New(kinds, pass.PortsFromManager(mgr), inframachine.Options{Calls: calls, Steps: steps})
		if err != nil {
			return nil, err
		}
		return r, r.IndexInfraMachines(ctx) // and then r.ReconcileObject for each of your objects
	}
	fmt.Println(steps[4].Name)
	// Output: example.com/tag
}

// A new infrastructure provider of Cluster API is a CRD, a Driver and this function.
func Example() {
	provide := func(ctx context.Context, mgr ctrl.Manager, driver provider.Driver) error {
		kinds, err := inframachine.ClusterAPI(
			schema.GroupVersionKind{Group: "infrastructure.example.com", Version: "v1", Kind: "CloudMachine"}, contract.V1Beta2)
		if err != nil {
			return err
		}
		_, err = inframachine.SetupWithManager(ctx, mgr, kinds, inframachine.Options{
			Calls: provider.Of(driver, provider.Timeout(time.Minute),
				provider.RateLimit(provider.RateLimitOptions{PerSecond: 20}), provider.Cache(provider.CacheOptions{})),
			Input: func(ctx context.Context, m *contract.ProvidedMachineState) (provider.Request, error) {
				r, err := inframachine.Spec(ctx, m)
				r.Account = m.Key.Namespace + "/cloud"
				r.Credentials = provider.FromEnvironment(map[string]string{"token": "CLOUD_TOKEN"}, func(string) (string, bool) { return "", false })
				return r, err
			},
		})
		return err
	}
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{
		{GVK: fake.MachineGVK(), Status: true},
		{GVK: schema.GroupVersionKind{Group: "infrastructure.example.com", Version: "v1", Kind: "CloudMachine"}, Status: true},
	}})
	mgr, err := store.NewManager(ctrl.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(provide(context.Background(), mgr, fake.NewDriver(fake.DriverOptions{})))
	// Output: <nil>
}
