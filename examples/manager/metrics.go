package main

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machine"
)

// newMetrics returns metrics that --metrics-bind-address serves together with those of controller-runtime.
func newMetrics(ctx context.Context, mgr ctrl.Manager, has served) (*machine.Metrics, error) {
	ours := machine.NewMetrics(machine.MetricsOptions{})
	err := metrics.Registry.Register(ours) // the registry that the manager serves
	if err == nil && has.rollouts {
		err = ours.WatchDeployments(ctx, mgr.GetCache(), contract.Unstructured(kindOf("MachineDeployment"), contract.MachineDeploymentV1Beta2()))
	}
	if err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	return ours, nil
}

// newPassMetrics returns metrics of the passes over objects of a kind, which are served too.
func newPassMetrics(kind string) (*pass.Metrics, error) {
	ours := pass.NewMetrics(pass.MetricsOptions{Kind: kind})
	if err := metrics.Registry.Register(ours); err != nil {
		return nil, fmt.Errorf("set up metrics of %ss: %w", kind, err)
	}
	return ours, nil
}
