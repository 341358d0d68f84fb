package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/options"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

const (
	userAgent       = "machinist-manager"
	machineResource = "machines"
	clusterResource = "clusters"
)

// newManager returns a manager that is ready to start. It reports problems that a person must solve.
func newManager(ctx context.Context, cfg *rest.Config, o settings, log logr.Logger) (ctrl.Manager, error) {
	has, err := o.lookAround(ctx, cfg)
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme(o.Kinds.Group)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(cfg, managerOptions(o, scheme, log))
	if err != nil && o.LeaderElection.Enabled && o.LeaderElection.Namespace == "" {
		return nil, fmt.Errorf("set up: %w; outside a pod, give --leader-election-namespace", err)
	}
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	if err := addProbes(mgr, log); err != nil {
		return nil, fmt.Errorf("set up health probes: %w", err)
	}
	options := machine.Options{
		Options: passOptions(mgr, o),
		Policy:  machine.Policy{DrainRules: machine.MachineDrainRules(drainRules(o))},
	}
	if options.Metrics, err = newMetrics(ctx, mgr, o, has); err != nil {
		return nil, err
	}
	log.Info("looking after Machines", "clusters", has.clusters, "rollouts", has.rollouts, "watchFilter", o.Machines.WatchFilter)
	if err := addReconciler(ctx, mgr, o, has, options); err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	return mgr, nil
}

// drainRules decide about the Pods of Machines as Cluster API does, in the order that the flags ask for.
func drainRules(o settings) func(drain.MachineDrainRules, drain.NamespaceLabels) []drain.Rule {
	return func(ofMachine drain.MachineDrainRules, namespaces drain.NamespaceLabels) []drain.Rule {
		return inOrder(o, drain.ClusterAPIRules(ofMachine, namespaces))
	}
}

// inOrder adds to some rules those about the order that the flags ask for.
func inOrder(o settings, rules []drain.Rule) []drain.Rule {
	if o.Machines.DrainVolumesInTurn {
		rules = append(rules, drain.OneAtATimeWithVolumes)
	}
	return rules
}

// lookAround checks for problems on this computer and in the cluster before the start.
func (o settings) lookAround(ctx context.Context, cfg *rest.Config) (served, error) {
	if err := o.Serving.Free(ctx); err != nil {
		return served{}, err
	}
	has, err := o.lookAtServer(cfg)
	if err != nil {
		return served{}, err
	}
	if has.clusters, err = o.readsClusters(has.clusters); err != nil {
		return served{}, err
	}
	if err := o.needsSets(has.sets); err != nil {
		return served{}, err
	}
	if err := o.needsDeployments(has.rollouts); err != nil {
		return served{}, err
	}
	if err := errors.Join(o.needsPools(has), o.needsHealthChecks(has.checks), o.needsDriver(cfg), o.needsClasses(has)); err != nil {
		return served{}, err
	}
	return has, checkRights(ctx, cfg, o, has.lists)
}

// addReconciler adds the Machine reconciler, with Nodes and Clusters as the flags select them.
func addReconciler(ctx context.Context, mgr ctrl.Manager, o settings, has served, options machine.Options) error {
	ports, err := portsFor(ctx, mgr, o, options)
	if err != nil {
		return err
	}
	var clusters *pass.Clusters
	if has.clusters {
		if clusters, err = pass.ClustersFromManager(mgr, pass.ClusterOptions{}); err != nil {
			return err
		}
		follow(&ports.Ports, clusters)
	}
	if o.Driver.Name != "" {
		if err := o.addDriver(ctx, mgr, clusters, &options); err != nil {
			return err
		}
	}
	guards, err := newSafeguards(mgr, o, clusters, ports)
	if err != nil {
		return err
	}
	if options.Steps == nil {
		options.Steps = machine.Steps()
	}
	options.Steps = freezing(o, guards, options.Steps, machine.StepPaused)
	r, err := machine.New(o.Kinds.Group.Machine(), ports, options)
	if err != nil {
		return err
	}
	if err := errors.Join(r.AddToManager(ctx, mgr), addKinds(ctx, mgr, o, clusters, guards, ports, options)); err != nil {
		return err
	}
	return guards.add(mgr, o, clusters, ports)
}

// addKinds adds the reconcilers of what flags add to Machines.
func addKinds(
	ctx context.Context, mgr ctrl.Manager, o settings, clusters *pass.Clusters, guards safeguards, ports machine.Ports,
	options machine.Options,
) error {
	for _, kind := range []struct {
		wanted bool
		add    func() error
	}{
		{o.Kinds.MachineSets, func() error { return addSets(ctx, mgr, o, clusters, guards) }},
		{o.Kinds.MachineDeployments, func() error { return addDeployments(ctx, mgr, o, clusters, guards) }},
		{o.Kinds.MachinePools, func() error { return addPools(ctx, mgr, o, ports, options) }},
		{o.Kinds.MachineHealthChecks, func() error { return addHealthChecks(ctx, mgr, o, guards, ports, options) }},
	} {
		if !kind.wanted {
			continue
		}
		if err := kind.add(); err != nil {
			return err
		}
	}
	return nil
}

// portsFor returns the Ports for Nodes: in this cluster, or in the clusters of the Machines.
func portsFor(ctx context.Context, mgr ctrl.Manager, o settings, options machine.Options) (machine.Ports, error) {
	drains, err := newDrainMetrics()
	if err != nil {
		return machine.Ports{}, err
	}
	setup := cluster.WorkloadOptions{Matching: options.Matching, DrainMetrics: drains}
	if !o.Workload.Enabled {
		own, err := setup.FromManager(ctx, mgr)
		return machine.Ports{Ports: pass.PortsFromManager(mgr), Workload: own}, err
	}
	secrets, err := cluster.SecretsFromManager(mgr, o.Machines.Namespaces...)
	if err != nil {
		return machine.Ports{}, err
	}
	workloads, err := cluster.New(cluster.Options[cluster.Workload]{
		Access: secrets, Setup: setup.Setup(), UserAgent: userAgent, Cache: caches(),
		QPS: float32(o.Workload.QPS), Burst: max(1, int(1.5*o.Workload.QPS)), ProbePath: o.Workload.ProbePath,
	})
	if err != nil {
		return machine.Ports{}, err
	}
	return machine.Ports{
		Ports:   pass.PortsFromManager(mgr),
		NodesOf: cluster.NodesOf(workloads), WorkloadEvents: workloads.Source,
	}, mgr.Add(workloads)
}

// followsClusters reports whether the flags have Machines follow Cluster objects, if those are served. Machines of machinist.dev do so only
// on demand: Clusters of the same name may be there for Cluster API's own Machines. Those of other systems name none.
func (o settings) followsClusters() bool {
	return o.Machines.Clusters == options.ClustersAlways || o.Machines.Clusters == options.ClustersAuto && o.Kinds.Group.IsClusterAPI()
}

// readsClusters reports whether Machines follow Cluster objects.
func (o settings) readsClusters(served bool) (bool, error) {
	if o.Machines.Clusters == options.ClustersAlways && !served {
		return false, fmt.Errorf("--clusters=always: the API server does not serve %s of %s: install Cluster API's CRDs", clusterResource,
			api.ClusterAPI.GroupVersion())
	}
	return served && o.followsClusters(), nil
}

// follow has a reconciler follow Clusters, if there are any.
func follow(ports *pass.Ports, clusters *pass.Clusters) {
	if clusters != nil {
		ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	}
}

// newScheme returns a scheme with Kubernetes' own types and those of a group.
func newScheme(group api.Group) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), group.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("set up the scheme: %w", err)
	}
	return scheme, nil
}

// caches returns the cache options: transforms remove what no reconciler reads.
func caches() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: cluster.TrimNode}},
	}
}

// statusDelay converts the flag for the library, where zero is the default and a negative time writes at once.
func statusDelay(o settings) time.Duration {
	if o.Machines.StatusDelay == 0 {
		return -1
	}
	return o.Machines.StatusDelay
}

// contractVersions are the versions of the contract whose objects are read.
func contractVersions(o settings) []contract.Version {
	if o.Machines.OldContracts {
		return contract.AllVersions()
	}
	return contract.Versions()
}

// passOptions are the options of the reconcilers of all kinds, without metrics.
func passOptions(mgr ctrl.Manager, o settings) pass.Options {
	return pass.Options{
		StatusDelay: statusDelay(o), WatchFilter: o.Machines.WatchFilter, ContractVersions: contractVersions(o),
		Recorder:   mgr.GetEventRecorder(userAgent),
		Controller: controller.Options{MaxConcurrentReconciles: o.Machines.Workers},
	}
}

// restConfig finds the cluster by kubectl's rules, and then by the service account of a pod.
func restConfig(o options.Client) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case err != nil && o.Kubeconfig != "":
		return nil, fmt.Errorf("--kubeconfig %s cannot be used: %w", o.Kubeconfig, unusable(rules, err))
	case err != nil:
		return nil, fmt.Errorf("no cluster to talk to: %w; give --kubeconfig, set KUBECONFIG, or run in a pod", unusable(rules, err))
	}
	cfg.UserAgent, cfg.WarningHandlerWithContext = userAgent, newWarnings()
	cfg.QPS = float32(o.QPS)
	if o.QPS > 0 {
		cfg.Burst = o.Bursts()
	}
	return cfg, nil
}

// unlimited are the flags of a client without a limit of requests.
func unlimited(kubeconfig string) options.Client {
	return options.Client{Kubeconfig: kubeconfig, QPS: -1}
}

// unusable names, in place of clientcmd, whose error names a variable of its own, which kubeconfig files are missing or empty.
func unusable(rules *clientcmd.ClientConfigLoadingRules, err error) error {
	var files []string
	for _, path := range rules.GetLoadingPrecedence() {
		if _, wrong := os.Stat(path); errors.Is(wrong, fs.ErrNotExist) {
			files = append(files, path+" does not exist")
		} else if clientcmd.IsEmptyConfig(err) {
			files = append(files, path+" names no cluster")
		}
	}
	switch {
	case len(files) == 0:
		return err
	case clientcmd.IsEmptyConfig(err):
		return errors.New(strings.Join(files, ", "))
	default:
		return fmt.Errorf("%w; %s", err, strings.Join(files, ", "))
	}
}

func managerOptions(o settings, scheme *runtime.Scheme, log logr.Logger) ctrl.Options {
	return ctrl.Options{
		Scheme:                  scheme,
		Logger:                  log,
		HealthProbeBindAddress:  o.Serving.ProbeAddress,
		Metrics:                 metricsOptions(o.Serving),
		PprofBindAddress:        o.Serving.ProfilerAddress,
		LeaderElection:          o.LeaderElection.Enabled,
		LeaderElectionID:        o.LeaderElection.Lease(),
		LeaderElectionNamespace: o.LeaderElection.Namespace,
		LeaseDuration:           orNil(o.LeaderElection.LeaseDuration),
		RenewDeadline:           orNil(o.LeaderElection.RenewDeadline),
		RetryPeriod:             orNil(o.LeaderElection.RetryPeriod),
		// The process ends when the manager does, so the next leader need not wait for the Lease to run out.
		LeaderElectionReleaseOnCancel: true,
		// The priority queue of v0.24 can hang when it is shut down (kubernetes-sigs/controller-runtime#3538), and SIGTERM
		// is to end the process.
		Controller: config.Controller{UsePriorityQueue: new(false)},
		Cache:      narrowed(caches(), o.Machines.Namespaces),
	}
}

// narrowed returns cache options for some namespaces, if any are given. Drains have a cache of their own for the Pods of Nodes.
func narrowed(c cache.Options, namespaces []string) cache.Options {
	for _, namespace := range namespaces {
		if c.DefaultNamespaces == nil {
			c.DefaultNamespaces = map[string]cache.Config{}
		}
		c.DefaultNamespaces[namespace] = cache.Config{}
	}
	return c
}

// orNil returns nil, for the default of controller-runtime, in place of zero.
func orNil(d time.Duration) *time.Duration {
	if d == 0 {
		return nil
	}
	return &d
}
