package main

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/machinist-dev/machinist/fake"
)

const (
	// providerAgent separates the provider's requests from those of the arms.
	providerAgent   = "machinebench-provider"
	providerWorkers = 20
)

// startProvider runs the contract provider in this process until ctx ends; then it sends to the channel. lives receives
// all Machines through the provider's own informer.
func startProvider(ctx context.Context, to *rest.Config, lives *recorder) (<-chan error, error) {
	to.UserAgent = providerAgent
	mgr, err := ctrl.NewManager(to, ctrl.Options{
		Logger:  logr.Discard(),
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Controller: config.Controller{
			SkipNameValidation: new(true), MaxConcurrentReconciles: providerWorkers,
			UsePriorityQueue: new(false), // it can hang when it is shut down: kubernetes-sigs/controller-runtime#3538
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	infrastructure := fake.Infrastructure{Node: nodeOf}
	if err := infrastructure.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	bootstrap := fake.Bootstrap{}
	if err := bootstrap.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	machines := &unstructured.Unstructured{}
	machines.SetGroupVersionKind(fake.MachineGVK())
	informer, err := mgr.GetCache().GetInformer(ctx, machines)
	if err != nil {
		return nil, fmt.Errorf("watch Machines: %w", err)
	}
	if _, err := informer.AddEventHandler(lives.handler()); err != nil {
		return nil, fmt.Errorf("watch Machines: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return nil, context.Cause(ctx)
	}
	return ended, nil
}

// nodeOf labels a Node with the fleet of its machine, so that it can be found and removed.
func nodeOf(infra *unstructured.Unstructured, providerID string) *corev1.Node {
	node := fake.Node(infra.GetName(), providerID)
	node.Labels[fleetLabel] = infra.GetLabels()[fleetLabel]
	return node
}
