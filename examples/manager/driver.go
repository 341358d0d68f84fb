package main

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/examples/manager/options"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/inframachine"
	"github.com/machinist-dev/machinist/machine/provider"
)

// driverResource is the resource of --driver-as=inframachine.
const driverResource = "kwokmachines"

// driverMetrics count Machines by the name of the driver where all Machines have it, also those without an instance.
func (o settings) driverMetrics() machine.MetricsOptions {
	if !o.Driver.IsStep() {
		return machine.MetricsOptions{}
	}
	return machine.MetricsOptions{Provider: func(*contract.MachineState) string { return o.Driver.Name }}
}

// driverRules are the rights of the driver in the cluster of the Machines.
func (o settings) driverRules() []rbacv1.PolicyRule {
	var rules [][]rbacv1.PolicyRule
	if o.Driver.Name != "" && o.Driver.Kubeconfig == "" && !o.Driver.HasCredentials() {
		rules = append(rules, kwokdriver.PolicyRules())
	}
	if o.Driver.IsProvider() {
		rules = append(rules, inframachine.PolicyRules(inframachine.Wiring{
			InfraMachine: schema.GroupResource{Group: kwokdriver.GVK().Group, Resource: driverResource}, Machine: o.ours(machineResource),
			StatusSubresource: true, Secrets: true, Clusters: o.followsClusters(), Events: true,
		}))
	}
	rules = append(rules, o.classRules())
	return contract.MergePolicyRules(rules...)
}

// needsDriver returns an error if the CRD of the driver's provider is missing.
func (o settings) needsDriver(cfg *rest.Config) error {
	if !o.Driver.IsProvider() {
		return nil
	}
	version := kwokdriver.GVK().GroupVersion()
	list, err := resourcesOf(cfg, version)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil || !lists(list, driverResource) {
		return fmt.Errorf("--driver-as=%s: the API server does not serve %s of %s: install what --print-crds prints with the same flags",
			options.DriverInfraMachine, driverResource, version)
	}
	return nil
}

// driverCalls returns the calls of the driver: with the habits of the flags next to it, and then as for any cloud. counted counts them; nil
// counts nothing. secrets reads the Secret of the flags, and must not be a cache.
func (o settings) driverCalls(c client.Client, secrets client.Reader, counted *provider.Metrics) provider.Calls {
	d := o.Driver
	habits := fake.UnreliableOptions{
		Latency: d.Latency, Hidden: d.Hidden, Vanish: d.Deletion, Quota: d.Quota, PerSecond: d.RefuseQPS,
		Answer: fake.LoseEvery(d.LoseEvery),
	}
	decorators := []provider.Decorator{fake.Unreliable(habits)}
	if counted != nil {
		decorators = append(decorators, counted.Decorator())
	}
	decorators = append(decorators, provider.Timeout(time.Minute),
		provider.RateLimit(provider.RateLimitOptions{PerSecond: d.QPS, Burst: max(1, int(d.QPS))}), provider.Cache(provider.CacheOptions{}))
	if d.HasCredentials() {
		decorators = append(decorators, o.withCredentials(secrets)) // the last one: limits and answers are those of an account
	}
	return provider.Of(kwokdriver.New(c, d.Boot), decorators...)
}

// driverPoll is the time between two looks at an instance that boots or is being deleted: as long as that takes, a second at least, and at
// most the default of the library.
func (o settings) driverPoll() time.Duration {
	return min(max(o.Driver.Boot, o.Driver.Deletion, time.Second), 10*time.Second)
}

// driverClient returns a client for the cluster of the driver's Nodes, which reads from its API server.
func (o settings) driverClient(mgr ctrl.Manager) (client.Client, error) {
	return o.driverClientBeside(mgr.GetConfig(), mgr.GetScheme())
}

// driverClientBeside is driverClient for the program that talks to another cluster, or to the same one, with cfg.
func (o settings) driverClientBeside(cfg *rest.Config, scheme *runtime.Scheme) (client.Client, error) {
	if o.Driver.Kubeconfig != "" {
		var err error
		if cfg, err = restConfig(unlimited(o.Driver.Kubeconfig)); err != nil {
			return nil, fmt.Errorf("--driver-kubeconfig: %w", err)
		}
	}
	if o.Driver.HasCredentials() {
		return kwokdriver.NewClient(cfg)
	}
	return client.New(cfg, client.Options{Scheme: scheme})
}

// addDriver adds the driver to the steps of Machines, or as a provider of its own.
func (o settings) addDriver(ctx context.Context, mgr ctrl.Manager, clusters *pass.Clusters, into *machine.Options) error {
	c, err := o.driverClient(mgr)
	if err != nil {
		return err
	}
	counted, err := newDriverMetrics(o.Driver.Name)
	if err != nil {
		return err
	}
	calls := o.driverCalls(c, mgr.GetAPIReader(), counted)
	if o.Driver.IsProvider() {
		return addDriverProvider(ctx, mgr, o, clusters, calls)
	}
	into.Steps = o.driverSteps(machine.DriverOptions{Calls: calls, Poll: o.driverPoll()}, mgr.GetCache(), mgr.GetAPIReader())
	return nil
}

// driverSteps returns the steps of Machines with the driver as one of them, by the kinds of the flags. Classes are read with a cache,
// and their Secrets without.
func (o settings) driverSteps(driver machine.DriverOptions, classes, secrets client.Reader) []machine.Step {
	steps := machine.Steps()
	if !o.Kinds.Group.IsClusterAPI() { // kwok needs no bootstrap data, and these Machines may name none: see refersTo
		steps = steps.Remove(machine.StepBootstrap).Remove(machine.StepDeleteBootstrap)
	}
	driver.RequestOf = o.requestOf(classes, secrets)
	if driver.Backoff == nil {
		driver.Backoff = o.driverBackoff()
	}
	return o.foreignSteps(machine.WithDriver(steps, driver))
}

// addDriverProvider adds the reconciler of KwokMachines.
func addDriverProvider(ctx context.Context, mgr ctrl.Manager, o settings, clusters *pass.Clusters, calls provider.Calls) error {
	kinds, err := inframachine.ClusterAPI(kwokdriver.GVK(), contract.V1Beta2)
	if err != nil {
		return err
	}
	kinds.Machine = o.Kinds.Group.Machine() // one shared informer
	ports := pass.PortsFromManager(mgr)
	follow(&ports, clusters)
	shared, err := passOptionsOf(mgr, o, kwokdriver.GVK().Kind)
	if err != nil {
		return err
	}
	r, err := inframachine.New(kinds, ports, inframachine.Options{Options: shared, Calls: calls, Poll: o.driverPoll()})
	if err != nil {
		return err
	}
	return r.AddToManager(ctx, mgr)
}
