// Command minimal is an operator in one file, to begin with: Machines, MachineSets and MachineDeployments of the API group cluster.k8s.io,
// a Driver, and first-boot data with which the machines join the cluster that the operator runs in.
//
//	go run ./examples/minimal    # needs a kubeconfig, and Kubermatic's CRDs in the cluster
//
// Put a Driver of your own in the place of the cloud in memory; package provider describes one, and its Cases test it.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// setup adds the reconcilers to a manager. The machines of the cloud join the cluster.
func setup(ctx context.Context, mgr ctrl.Manager, cloud provider.Driver, cluster userdata.Cluster) error {
	kinds := contract.Kubermatic()
	system, err := userdata.Builtin(userdata.Ubuntu2404)
	steps := machine.WithDriver(machine.Steps().Remove(machine.StepBootstrap), machine.DriverOptions{
		Calls: provider.Of(cloud, provider.Timeout(time.Minute), provider.RateLimit(provider.RateLimitOptions{PerSecond: 20, Burst: 20}),
			provider.Cache(provider.CacheOptions{})),
		UserData: func(ctx context.Context, m *contract.MachineState) ([]byte, error) {
			return firstBoot(ctx, mgr.GetClient(), system, cluster, m)
		},
		WithoutBootstrap: true, // no other controller makes first-boot data
	}).Replace(machine.StepPhase, machine.PhaseStep(phases.Kubermatic(), machine.KubermaticFacts))
	_, err1 := machine.SetupWithManager(ctx, mgr, kinds.Machine, machine.Options{Steps: steps})
	_, err2 := machineset.SetupWithManager(ctx, mgr, kinds, machineset.Options{})
	_, err3 := deployment.SetupWithManager(ctx, mgr, kinds, deployment.Options{})
	return errors.Join(err, err1, err2, err3)
}

// tokenLives is for how long a machine may boot.
const tokenLives = time.Hour

// firstBoot returns what a machine does at its first boot. It has a bootstrap token of its own, which the control plane deletes when it has
// expired; each attempt to create the machine has another one.
func firstBoot(
	ctx context.Context, c client.Client, system userdata.System, cluster userdata.Cluster, m *contract.MachineState,
) ([]byte, error) {
	text := strings.ToLower(rand.Text())
	cluster.Token = userdata.NewSecret(text[:6] + "." + text[6:22])
	doc, err := userdata.Render(system, userdata.Config{
		Version: "v" + strings.TrimPrefix(cmp.Or(m.Version, "1.36.3"), "v"), Cluster: cluster,
		Node: userdata.Node{Name: m.Key.Name, OmitUninitialized: true},
	})
	if err != nil {
		return nil, err
	}
	token, err := userdata.TokenSecret(cluster.Token, time.Now().Add(tokenLives), "Machine "+m.Key.String())
	if err != nil {
		return nil, err
	}
	return doc.Bytes(), c.Create(ctx, token)
}
