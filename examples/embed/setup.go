package main

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	v1 "example.com/edge/v1"
)

// operatorName is the name of the operator in requests and in RBAC.
const operatorName = "edge-operator"

// newScheme returns a scheme with the types that the operator reads and writes.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(scheme.AddToScheme(s), v1.AddToScheme(s))
}

// newManager returns the manager with all controllers of the operator. Without a console, boxes are simulated.
func newManager(ctx context.Context, cfg *rest.Config, options ctrl.Options, console Console) (ctrl.Manager, error) {
	cfg = rest.AddUserAgent(cfg, operatorName)
	mgr, err := ctrl.NewManager(cfg, options)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	if console == nil {
		console = simulation{client: mgr.GetClient()}
	}
	if err := errors.Join(addInventory(mgr), addBoxes(ctx, mgr, console)); err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	return mgr, nil
}
