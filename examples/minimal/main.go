// Command minimal is an operator in one file, to begin with: Machines, MachineSets and MachineDeployments of the API group cluster.k8s.io,
// a Driver, and first-boot data with which the machines join the cluster that the operator runs in.
//
//	go run ./examples/minimal    # needs a kubeconfig, and Kubermatic's CRDs in the cluster
//
// Put a Driver of your own in the place of the cloud in memory; package provider describes one, and its Cases test it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/phases"
)

func main() {
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "minimal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{LeaderElection: true, LeaderElectionID: "minimal", LeaderElectionNamespace: "default"})
	if err != nil {
		return err
	}
	cloud := fake.NewDriver(fake.DriverOptions{Boot: 10 * time.Second}) // your Driver
	if err := setup(ctx, mgr, cloud, userdata.Cluster{Server: config.Host, CA: string(config.CAData)}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// setup adds the reconcilers to a manager. The machines of the cloud join the cluster, each with a token of its own.
func setup(ctx context.Context, mgr ctrl.Manager, cloud provider.Driver, cluster userdata.Cluster) error {
	kinds, tokens := contract.Kubermatic(), machine.JoinTokens{}
	calls := provider.Of(cloud, provider.Timeout(time.Minute), provider.RateLimit(provider.RateLimitOptions{PerSecond: 20, Burst: 20}),
		provider.Cache(provider.CacheOptions{}))
	specs := machine.ProviderSpecs{
		Config: func(_ context.Context, s *machine.Scope) (userdata.Config, error) {
			return userdata.Config{Cluster: cluster, Node: userdata.Node{Name: s.State.Key.Name}}, nil
		},
		Token: tokens.Token, CloudConfig: calls.GetCloudConfig,
	}
	steps := machine.WithDriver(machine.Steps().Remove(machine.StepBootstrap), machine.DriverOptions{
		Calls: calls, RequestOf: specs.RequestOf, UserData: specs.UserData, WithoutBootstrap: true,
	}).Replace(machine.StepPhase, machine.PhaseStep(phases.Kubermatic(), machine.KubermaticFacts))
	_, err := machine.SetupWithManager(ctx, mgr, kinds.Machine, machine.Options{Steps: machine.WithJoinTokens(steps, tokens)})
	_, err1 := machineset.SetupWithManager(ctx, mgr, kinds, machineset.Options{})
	_, err2 := deployment.SetupWithManager(ctx, mgr, kinds, deployment.Options{})
	return errors.Join(err, err1, err2)
}
