package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	peer "github.com/machinist-dev/machinist/examples/lab/capi"
	"github.com/machinist-dev/machinist/fake"
)

const (
	capiCluster  = "drainbench"
	machineLimit = 2 * time.Minute
)

func infraGVK() schema.GroupVersionKind { return fake.InfraMachineGVK(contract.V1Beta2) }

// capiObjects are the Machines of Nodes that exist already.
type capiObjects struct{ *peer.Objects }

// createMachines creates a Machine of the same name for each Node and waits until the manager knows that it is the Machine's.
func (o *capiObjects) createMachines(ctx context.Context, nodes []string) error {
	for _, name := range nodes {
		infra := fake.InfraMachine(contract.V1Beta2, name, fake.InNamespace(namespace))
		infra.Object["spec"] = map[string]any{"providerID": providerID(name)}
		infra.Object["status"] = map[string]any{"initialization": map[string]any{"provisioned": true}}
		status := infra.DeepCopy()
		if err := o.Client.Create(ctx, infra); err != nil {
			return err
		}
		status.SetResourceVersion(infra.GetResourceVersion())
		if err := o.Client.Status().Update(ctx, status); err != nil {
			return err
		}
		if err := o.Client.Create(ctx, o.Machine(name)); err != nil {
			return err
		}
	}
	for _, name := range nodes {
		err := o.poll(ctx, name, machineLimit, func(m *unstructured.Unstructured) bool {
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
func (o *capiObjects) deleteMachines(ctx context.Context, nodes []string) error {
	for _, name := range nodes {
		if err := o.Client.Delete(ctx, o.Machine(name)); err != nil {
			return err
		}
	}
	for _, name := range nodes {
		if err := o.poll(ctx, name, 0, func(m *unstructured.Unstructured) bool { return m == nil }); err != nil {
			return fmt.Errorf("wait for the Machine %s to go: %w", name, err)
		}
	}
	return nil
}

// poll waits until check is content with a Machine, which is nil when there is none. Without a limit only ctx ends it.
func (o *capiObjects) poll(ctx context.Context, name string, limit time.Duration, check func(*unstructured.Unstructured) bool) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return wait.PollUntilContextCancel(ctx, 4*scenePoll, true, func(ctx context.Context) (bool, error) {
		m := o.Machine(name)
		err := o.Client.Get(ctx, client.ObjectKeyFromObject(m), m)
		if apierrors.IsNotFound(err) {
			return check(nil), nil
		}
		return err == nil && check(m), err
	})
}
