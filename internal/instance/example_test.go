package instance_test

import (
	"context"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine/provider"
)

// A loop of your own asks the Keeper in each pass, and stores what it adopts before anything else.
func ExampleKeeper() {
	ctx := context.Background()
	keeper, err := instance.NewKeeper(instance.Options{Calls: provider.Of(fake.NewDriver(fake.DriverOptions{}))})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := instance.Input{Request: provider.Request{Token: "uid-1", Spec: []byte(`{"size":"enormous"}`)}, Now: time.Now()}
	found, _ := keeper.Ensure(ctx, in)
	fmt.Println(found.Status, found.Reason, found.Message)

	in.Request.Spec = []byte(`{"size":"large"}`)
	found, _ = keeper.Ensure(ctx, in)
	fmt.Println(found.Status, found.Reason, found.Instance.ProviderID)

	in.Request.ProviderID = found.Instance.ProviderID
	found, _ = keeper.Ensure(ctx, in)
	fmt.Println(found.Status, found.Reason)

	in.Deleting = true
	fmt.Printf("%+v\n", keeper.Remove(ctx, in))
	// Output:
	// False InvalidConfiguration fake: size "enormous": give one of small, large
	// False InstanceCreating fake://1
	// True Ready
	// {Gone:true Message: RequeueAfter:0s}
}
