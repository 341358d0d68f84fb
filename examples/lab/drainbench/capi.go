package main

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/bench"
	peer "github.com/machinist-dev/machinist/examples/lab/capi"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// capi is Cluster API's manager, whose drain cannot be called: a Machine is deleted instead, and the manager drains its Node first.
type capi struct {
	*capiObjects

	manager *bench.Process
}

// quiet is how long the manager is left alone when the Machine has its Node: it labels the Node, and looks at an object at most
// once a second.
const quiet = 3 * time.Second

// startCAPI runs the manager and gives each Node a Machine.
func startCAPI(ctx context.Context, plane *cluster.ControlPlane, live client.Client, nodes []string, say bench.Say) (drainer, error) {
	program, err := peer.BuildManager(ctx, say)
	if err != nil {
		return nil, err
	}
	objects := &capiObjects{&peer.Objects{Client: live, Plane: plane, Cluster: capiCluster}}
	if err := objects.Install(ctx); err != nil {
		return nil, fmt.Errorf("start Cluster API: %w", err)
	}
	// Its directory is in the control plane's, which goes even when this process is killed.
	manager, err := peer.StartManager(peer.ManagerOptions{
		Program: program, Kubeconfig: plane.Kubeconfig(), Dir: plane.Dir(), Flags: peer.Unlimited(),
	})
	if err != nil {
		return nil, fmt.Errorf("start Cluster API: %w", err)
	}
	c := &capi{capiObjects: objects, manager: manager}
	err = manager.While(ctx, func(ctx context.Context) error {
		if err := objects.createMachines(ctx, nodes); err != nil {
			return err
		}
		return bench.Sleep(ctx, quiet)
	})
	if err != nil {
		c.close()
		return nil, fmt.Errorf("start Cluster API: %w", err)
	}
	return c, nil
}

func (c *capi) drain(ctx context.Context, nodes []string) error {
	return c.manager.While(ctx, func(ctx context.Context) error { return c.deleteMachines(ctx, nodes) })
}

// ended is when the manager asked for the deletion of the last Machine's infrastructure, which it does when the Node is drained.
func (c *capi) ended(own cluster.AuditEvents) time.Time {
	var last time.Time
	for _, e := range own {
		if e.Verb == "delete" && e.Group == infraGVK().Group && e.Received.After(last) {
			last = e.Received
		}
	}
	return last
}

func (c *capi) close() { c.manager.Stop() }
