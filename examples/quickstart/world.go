package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// How long things take: slow enough for a person to see every phase.
const (
	stage    = 900 * time.Millisecond // one of: bootstrap data, infrastructure, the Node's arrival
	startPod = time.Second
	stopPod  = 500 * time.Millisecond
	// statusDelay is how long an intermediate status must last to be written: less than a stage, so that every phase shows.
	statusDelay = 250 * time.Millisecond
)

// newManager returns a manager over a store. It runs the reconcilers and the fake providers, and the loops that replace a cluster's own
// controllers.
func newManager(ctx context.Context, store *fake.Store) (ctrl.Manager, error) {
	mgr, err := store.NewManager(ctrl.Options{
		Logger:     logr.Discard(),
		Controller: config.Controller{SkipNameValidation: new(true)}, // one process may run several stories
	})
	if err != nil {
		return nil, err
	}
	loops := fake.AllLoops() // the controller manager, the scheduler and the kubelets
	loops.StartPod, loops.StopPod = startPod, stopPod
	return mgr, errors.Join(mgr.Add(store.Runnable(loops)), addProviders(mgr), addReconcilers(ctx, mgr))
}

// addReconcilers is everything that an operator needs: the reconcilers of Machines, MachineSets and MachineDeployments. That of Machines
// reads the others, to decide whether a Machine is up to date.
func addReconcilers(ctx context.Context, mgr ctrl.Manager) error {
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	if err != nil {
		return err
	}
	_, err = machineset.SetupWithManager(ctx, mgr, kinds, machineset.Options{Options: pass.Options{StatusDelay: statusDelay}})
	_, err2 := deployment.SetupWithManager(ctx, mgr, kinds, deployment.Options{Options: pass.Options{StatusDelay: statusDelay}})
	ports, err3 := machine.PortsFromManager(ctx, mgr, machine.Options{})
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	machines, err := machine.New(kinds.Machine, ports, machine.Options{
		Options: pass.Options{StatusDelay: statusDelay, Recorder: mgr.GetEventRecorder("machine")},
	})
	if err != nil {
		return err
	}
	return machines.AddToManager(ctx, mgr)
}

// addProviders adds the fake bootstrap and infrastructure providers.
func addProviders(mgr ctrl.Manager) error {
	options := fake.ProviderOptions{Delay: fake.Constant(stage)}
	bootstrap := &fake.Bootstrap{ProviderOptions: options}
	infrastructure := &fake.Infrastructure{ProviderOptions: options, NodeDelay: options.Delay}
	return errors.Join(bootstrap.SetupWithManager(mgr), infrastructure.SetupWithManager(mgr))
}
