package main

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
)

// newMetrics returns metrics that --metrics-bind-address serves together with those of controller-runtime.
func newMetrics(ctx context.Context, mgr ctrl.Manager, o settings, has served) (*machine.Metrics, error) {
	ours := machine.NewMetrics(o.driverMetrics())
	err := metrics.Registry.Register(ours) // the registry that the manager serves
	if err == nil && has.rollouts {
		err = ours.WatchDeployments(ctx, mgr.GetCache(), o.Kinds.Group.MachineDeployment())
	}
	if err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	return ours, nil
}

// passOptionsOf are those of the reconciler of a kind, with metrics of its passes, which are served too.
func passOptionsOf(mgr ctrl.Manager, o settings, kind string) (pass.Options, error) {
	shared := passOptions(mgr, o)
	shared.Metrics = pass.NewMetrics(pass.MetricsOptions{Kind: kind})
	if err := metrics.Registry.Register(shared.Metrics); err != nil {
		return pass.Options{}, fmt.Errorf("set up metrics of %ss: %w", kind, err)
	}
	return shared, nil
}

// newDrainMetrics returns metrics of the drains of Nodes, which are served too.
func newDrainMetrics() (*runner.Metrics, error) {
	ours := runner.NewMetrics()
	if err := metrics.Registry.Register(ours); err != nil {
		return nil, fmt.Errorf("set up metrics of drains: %w", err)
	}
	return ours, nil
}

// newDriverMetrics returns metrics of the calls to a driver, which are served too.
func newDriverMetrics(driver string) (*provider.Metrics, error) {
	ours := provider.NewMetrics(driver)
	if err := metrics.Registry.Register(ours); err != nil {
		return nil, fmt.Errorf("set up metrics of driver %s: %w", driver, err)
	}
	return ours, nil
}
