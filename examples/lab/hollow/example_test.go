//go:build e2e

package hollow_test

import (
	"context"
	"fmt"
	"os"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/hollow"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
)

// A test of your own operator gets a Node with a real kubelet.
func Example() {
	ctx := context.Background()
	plane, err := cluster.Start(ctx, cluster.Options{Log: os.Stderr, ManagedNodes: cluster.OtherNodes})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = plane.Stop() }()
	if err := cluster.AllowBootstrap(ctx, plane.Config()); err != nil {
		fmt.Println(err)
		return
	}
	doc, err := hollow.FirstBoot(ctx, plane, userdata.Config{Node: userdata.Node{Name: "worker-7", OmitUninitialized: true}})
	if err != nil {
		fmt.Println(err)
		return
	}
	driver := hollow.New(plane)
	if _, err := driver.Create(ctx, provider.Request{Token: "uid-7", Name: "worker-7", UserData: doc.Bytes()}); err != nil {
		fmt.Println(err)
		return
	}
	// The Node worker-7 becomes Ready. Then the kubelet dies, and its Node stays.
	driver.Kubelet("uid-7").Kill()
}
