package kwokdriver_test

import (
	"context"
	"fmt"

	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/provider"
)

// A Node appears as in a cloud: every third answer is lost.
func Example() {
	store := fake.NewStore(fake.Options{}) // a real program has a client of a cluster with kwok
	calls := provider.Of(kwokdriver.New(store.Client(), 0), fake.Unreliable(fake.UnreliableOptions{Answer: fake.LoseEvery(3)}))
	r := provider.Request{Token: "uid-1", Name: "m1", Cluster: "c1"}
	for range 3 {
		instance, err := calls.Create(context.Background(), r)
		fmt.Println(instance.State, err)
	}
	// Output:
	// Running <nil>
	// Running <nil>
	// Running the answer to create was lost
}
