package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/inframachine"
	"github.com/machinist-dev/machinist/machine/provider"
)

// Values of --driver and --driver-as.
const (
	driverKwok         = "kwok"
	driverStep         = "step"
	driverInfraMachine = "inframachine"
)

// driverResource is the resource of --driver-as=inframachine.
const driverResource = "kwokmachines"

// driverOptions are the flags of the driver. Without a name there is none.
type driverOptions struct {
	name, as, kubeconfig string
	qps                  float64
	habits               fake.UnreliableOptions
	loseEvery            int
}

func (d *driverOptions) flags(flags *flag.FlagSet) {
	flags.StringVar(&d.name, "driver", "", "`name` of a driver that makes instances: kwok creates Nodes that kwok simulates; empty: none")
	flags.StringVar(&d.as, "driver-as", driverStep,
		"how the driver is used: step, in place of the infrastructure objects of all Machines; or inframachine, as the infrastructure "+
			"provider of KwokMachines, whose CustomResourceDefinitions --print-crds prints")
	flags.StringVar(&d.kubeconfig, "driver-kubeconfig", "", "kubeconfig `file` of the cluster with the driver's Nodes; empty: this cluster")
	flags.Float64Var(&d.qps, "driver-qps", 20, "calls a second that the driver gets at most; more wait for their turn")
	flags.DurationVar(&d.habits.Latency, "driver-latency", 0, "how long each call to the driver takes")
	flags.DurationVar(&d.habits.Boot, "driver-boot-time", 0, "how long a new instance takes to run")
	flags.DurationVar(&d.habits.Hidden, "driver-hidden-time", 0, "how long a new instance cannot be read")
	flags.DurationVar(&d.habits.Vanish, "driver-deletion-time", 0, "how long an instance takes to be gone")
	flags.IntVar(&d.habits.Quota, "driver-quota", 0, "instances that a Cluster may have; 0 is no limit")
	flags.Float64Var(&d.habits.PerSecond, "driver-refuse-qps", 0, "calls a second beyond which the driver refuses some; 0 refuses none")
	flags.IntVar(&d.loseEvery, "driver-lose-every", 0, "every n-th answer of the driver is lost; 0 loses none")
}

// validate reports all errors at once.
func (d *driverOptions) validate() error {
	if d.name == "" {
		return nil
	}
	var errs []error
	if d.name != driverKwok {
		errs = append(errs, fmt.Errorf("--driver %q: give %s, or nothing", d.name, driverKwok))
	}
	if !slices.Contains([]string{driverStep, driverInfraMachine}, d.as) {
		errs = append(errs, fmt.Errorf("--driver-as %q: give %s or %s", d.as, driverStep, driverInfraMachine))
	}
	if d.qps <= 0 {
		errs = append(errs, fmt.Errorf("--driver-qps %v: give a positive number of calls a second", d.qps))
	}
	for _, t := range []struct {
		flag  string
		value time.Duration
	}{
		{"latency", d.habits.Latency}, {"boot-time", d.habits.Boot}, {"hidden-time", d.habits.Hidden}, {"deletion-time", d.habits.Vanish},
	} {
		if t.value < 0 {
			errs = append(errs, fmt.Errorf("--driver-%s %s: give a time such as 2s, or 0", t.flag, t.value))
		}
	}
	if d.habits.Quota < 0 || d.habits.PerSecond < 0 || d.loseEvery < 0 {
		errs = append(errs, errors.New("--driver-quota, --driver-refuse-qps and --driver-lose-every: give 0 or more"))
	}
	return errors.Join(errs...)
}

func (d *driverOptions) isStep() bool { return d.name != "" && d.as == driverStep }

func (d *driverOptions) isProvider() bool { return d.name != "" && d.as == driverInfraMachine }

// metrics count Machines by the name of the driver where all Machines have it, also those without an instance.
func (d *driverOptions) metrics() machine.MetricsOptions {
	if !d.isStep() {
		return machine.MetricsOptions{}
	}
	return machine.MetricsOptions{Provider: func(*contract.MachineState) string { return d.name }}
}

// policyRules are the rights of the driver in the cluster of the Machines.
func (d *driverOptions) policyRules(o options) []rbacv1.PolicyRule {
	var rules [][]rbacv1.PolicyRule
	if d.name != "" && d.kubeconfig == "" {
		rules = append(rules, kwokdriver.PolicyRules())
	}
	if d.isProvider() {
		rules = append(rules, inframachine.PolicyRules(inframachine.Wiring{
			InfraMachine: schema.GroupResource{Group: kwokdriver.GVK().Group, Resource: driverResource}, Machine: o.ours(machineResource),
			StatusSubresource: true, Secrets: true, Clusters: o.followsClusters(), Events: true,
		}))
	}
	return contract.MergePolicyRules(rules...)
}

// needsDriver returns an error if the CRD of the driver's provider is missing.
func (o options) needsDriver(cfg *rest.Config) error {
	if !o.driver.isProvider() {
		return nil
	}
	version := kwokdriver.GVK().GroupVersion()
	list, err := resourcesOf(cfg, version)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil || !lists(list, driverResource) {
		return fmt.Errorf("--driver-as=%s: the API server does not serve %s of %s: install what --print-crds prints with the same flags",
			driverInfraMachine, driverResource, version)
	}
	return nil
}

// calls returns the calls of the driver: with the habits of the flags next to it, and then as for any cloud. counted counts them; nil
// counts nothing.
func (d *driverOptions) calls(c client.Client, counted *provider.Metrics) provider.Calls {
	habits := d.habits
	habits.Answer = fake.LoseEvery(d.loseEvery)
	decorators := []provider.Decorator{fake.Unreliable(habits)}
	if counted != nil {
		decorators = append(decorators, counted.Decorator())
	}
	return provider.Of(kwokdriver.New(c), append(decorators, provider.Timeout(provider.TimeoutOptions{}),
		provider.RateLimit(provider.RateLimitOptions{PerSecond: d.qps, Burst: max(1, int(d.qps))}), provider.Cache(provider.CacheOptions{}))...)
}

// client returns a client for the cluster of the driver's Nodes, which reads from its API server.
func (d *driverOptions) client(mgr ctrl.Manager) (client.Client, error) {
	return d.clientBeside(mgr.GetConfig(), mgr.GetScheme())
}

// clientBeside is client for the program that talks to another cluster, or to the same one, with cfg.
func (d *driverOptions) clientBeside(cfg *rest.Config, scheme *runtime.Scheme) (client.Client, error) {
	if d.kubeconfig != "" {
		var err error
		if cfg, err = restConfig(options{kubeconfig: d.kubeconfig, qps: -1}); err != nil {
			return nil, fmt.Errorf("--driver-kubeconfig: %w", err)
		}
	}
	return client.New(cfg, client.Options{Scheme: scheme})
}

// add adds the driver to the steps of Machines, or as a provider of its own.
func (d *driverOptions) add(ctx context.Context, mgr ctrl.Manager, o options, clusters *external.Clusters, into *machine.Options) error {
	c, err := d.client(mgr)
	if err != nil {
		return err
	}
	counted, err := newDriverMetrics(d.name)
	if err != nil {
		return err
	}
	calls := d.calls(c, counted)
	if d.isProvider() {
		return addDriverProvider(ctx, mgr, o, clusters, calls)
	}
	steps := machine.Steps()
	if o.group == api.Machinist { // kwok needs no bootstrap data, and these Machines may name none
		if steps, err = pass.Remove(steps, machine.StepBootstrap); err != nil {
			return err
		}
	}
	into.Steps, err = machine.WithDriver(steps, machine.DriverOptions{Calls: calls})
	return err
}

// addDriverProvider adds the reconciler of KwokMachines.
func addDriverProvider(ctx context.Context, mgr ctrl.Manager, o options, clusters *external.Clusters, calls provider.Calls) error {
	kinds, err := inframachine.ClusterAPI(kwokdriver.GVK(), contract.V1Beta2)
	if err != nil {
		return err
	}
	kinds.Machine = o.group.Machine() // one shared informer
	ports := inframachine.Ports{Ports: pass.PortsFromManager(mgr)}
	follow(&ports.Ports, clusters)
	counted, err := newPassMetrics(kwokdriver.GVK().Kind)
	if err != nil {
		return err
	}
	r, err := inframachine.New(kinds, ports, inframachine.Options{
		Calls: calls, WatchFilter: o.watchFilter, Recorder: mgr.GetEventRecorder(userAgent), Metrics: counted,
		Controller: controller.Options{MaxConcurrentReconciles: o.concurrency},
	})
	if err != nil {
		return err
	}
	return r.AddToManager(ctx, mgr)
}
