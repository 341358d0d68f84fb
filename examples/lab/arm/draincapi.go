package arm

import (
	"context"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

const (
	machineLimit = 2 * time.Minute
	machinePoll  = 200 * time.Millisecond
	// labelTime is how long Cluster API's manager is left alone when the Machine has its Node: it labels the Node, and looks at an object
	// at most once a second.
	labelTime = 3 * time.Second
)

// ProviderID is that of the Nodes that a drain of Cluster API finds.
func ProviderID(node string) string { return "bench://" + node }

// capiDrain is Cluster API's manager, whose drain cannot be called: a Machine is deleted instead, and the manager drains its Node first.
type capiDrain struct {
	*Objects

	manager *measure.Process
}

// DrainByCAPI runs Cluster API's manager and gives each Node a Machine.
func DrainByCAPI(ctx context.Context, built Programs, objects *Objects, nodes []string) (Drainer, error) {
	if err := objects.Install(ctx); err != nil {
		return nil, fmt.Errorf("start Cluster API: %w", err)
	}
	// Its directory is in the control plane's, which goes even when this process is killed.
	manager, err := StartCAPI(built[CAPI], objects.Plane, NoLimits(CAPI)...)
	if err != nil {
		return nil, fmt.Errorf("start Cluster API: %w", err)
	}
	c := &capiDrain{Objects: objects, manager: manager}
	err = manager.While(ctx, func(ctx context.Context) error {
		if err := c.createMachines(ctx, nodes); err != nil {
			return err
		}
		return measure.Sleep(ctx, labelTime)
	})
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("start Cluster API: %w", err)
	}
	return c, nil
}

// Drain implements Drainer.
func (c *capiDrain) Drain(ctx context.Context, nodes []string) error {
	return c.manager.While(ctx, func(ctx context.Context) error { return c.deleteMachines(ctx, nodes) })
}

// Ended implements Timekeeper: it is when the manager asked for the deletion of the last Machine's infrastructure, which it does when the
// Node is drained.
func (c *capiDrain) Ended(own cluster.AuditEvents) time.Time {
	var last time.Time
	for _, e := range own {
		if e.Verb == "delete" && e.Group == fake.InfraMachineGVK(contract.V1Beta2).Group && e.Received.After(last) {
			last = e.Received
		}
	}
	return last
}

// Close implements Drainer.
func (c *capiDrain) Close() { c.manager.Stop() }

// createMachines creates a Machine of the same name for each Node and waits until the manager knows that it is the Machine's.
func (c *capiDrain) createMachines(ctx context.Context, nodes []string) error {
	for _, name := range nodes {
		infra := fake.InfraMachine(contract.V1Beta2, name, fake.InNamespace(c.namespace()))
		infra.Object["spec"] = map[string]any{"providerID": ProviderID(name)}
		infra.Object["status"] = map[string]any{"initialization": map[string]any{"provisioned": true}}
		status := infra.DeepCopy()
		if err := c.Client.Create(ctx, infra); err != nil {
			return err
		}
		status.SetResourceVersion(infra.GetResourceVersion())
		if err := c.Client.Status().Update(ctx, status); err != nil {
			return err
		}
		if err := c.Client.Create(ctx, c.Machine(name)); err != nil {
			return err
		}
	}
	for _, name := range nodes {
		err := c.poll(ctx, name, machineLimit, func(m *unstructured.Unstructured) bool {
			if m == nil {
				return false
			}
			node, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
			return node == name
		})
		if err != nil {
			return fmt.Errorf("wait for the Machine %s to find its Node: %w", name, err)
		}
	}
	return nil
}

// deleteMachines deletes the Nodes' Machines and returns when they are gone.
func (c *capiDrain) deleteMachines(ctx context.Context, nodes []string) error {
	for _, name := range nodes {
		if err := c.Client.Delete(ctx, c.Machine(name)); err != nil {
			return err
		}
	}
	for _, name := range nodes {
		if err := c.poll(ctx, name, 0, func(m *unstructured.Unstructured) bool { return m == nil }); err != nil {
			return fmt.Errorf("wait for the Machine %s to go: %w", name, err)
		}
	}
	return nil
}

// poll waits until check is content with a Machine, which is nil when there is none. Without a limit only ctx ends it.
func (c *capiDrain) poll(ctx context.Context, name string, limit time.Duration, check func(*unstructured.Unstructured) bool) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return wait.PollUntilContextCancel(ctx, machinePoll, true, func(ctx context.Context) (bool, error) {
		m := c.Machine(name)
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(m), m)
		if apierrors.IsNotFound(err) {
			return check(nil), nil
		}
		return err == nil && check(m), err
	})
}
