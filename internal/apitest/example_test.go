package apitest_test

import (
	"context"
	"fmt"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest"
)

func ExampleCases() {
	store := fake.NewStore(fake.Options{})
	ctx, stop := context.WithCancel(context.Background())
	wait := store.Start(ctx, fake.AllLoops())
	defer wait()
	defer stop()
	env := apitest.Env{Client: store.Client(), Namespace: "default"}
	for _, c := range apitest.Cases()[:1] {
		fmt.Println(c.Name, "-", c.Run(ctx, env))
	}
	// Output:
	// a new object gets UID, version, time and generation from the server - <nil>
}
