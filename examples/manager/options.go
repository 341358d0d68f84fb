package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/examples/manager/api"
)

// Values of --log-format.
const (
	logText = "text"
	logJSON = "json"
)

// Values of --clusters.
const (
	clustersAuto   = "auto"
	clustersAlways = "always"
	clustersNever  = "never"
)

// disabled is the address of an endpoint that is not served.
const disabled = "0"

// options are the flags.
type options struct {
	kubeconfig string

	leaderElect                  bool
	leaderElectionID             string
	leaderElectionNamespace      string
	probeAddress, metricsAddress string
	profilerAddress              string

	concurrency         int
	qps                 float64
	statusDelay         time.Duration
	workloadClusters    bool
	clusters            string
	machineSets         bool
	machineDeployments  bool
	machinePools        bool
	group               api.Group
	poolGroup           api.Group // empty: group
	machineHealthChecks bool
	healthCheckPolicy   string
	watchFilter         string
	driver              driverOptions
	safety              safetyOptions
	workloadQPS         float64
	workloadProbe       string

	logFormat string
	verbosity int

	printRBAC, printNodeRBAC bool
	printCRDs, installCRDs   bool
	ownersEnforced           bool
	providerResources        []schema.GroupResource
	controlPlaneResources    []schema.GroupResource
	remediationResources     []schema.GroupResource
}

const usage = `manager leads Machines through their life: bootstrap data, infrastructure, Node; and at the end drain, clean-up and the
Node's deletion. They are Cluster API's, whose CRDs and a provider must be installed and whose core manager must not run; or with
--api-group=machinist.dev those of the manager's own CRDs.

  go run ./examples/manager --print-rbac | kubectl apply -f -    the rights that it needs with these flags, as a ClusterRole
  go run ./examples/manager                                      KUBECONFIG, ~/.kube/config, or the pod's service account
  go run ./examples/manager --kubeconfig dev.yaml -v 1           more logs
  go run ./examples/manager --leader-elect                       several replicas, one of which acts
  go run ./examples/manager --workload-clusters                  Nodes are in the clusters that Machines name, not in this one
  go run ./examples/manager --machinesets                        MachineSets too
  go run ./examples/manager --machinesets --machinedeployments   MachineDeployments too
  go run ./examples/manager rollout --help                       history, undo, pause, resume, restart and status of a rollout
  go run ./examples/manager describe --help                      what a Machine waits for, and what a person can do
  go run ./examples/manager tree --help                          a MachineDeployment with its Machines, Nodes and drains
  go run ./examples/manager --machinepools                       MachinePools too
  go run ./examples/manager --machinehealthchecks                MachineHealthChecks too
  go run ./examples/manager --api-group=machinist.dev --install-crds --machinesets --machinedeployments --driver=kwok
                                                                 CRDs of its own, without Cluster API and its providers
  go run ./examples/manager --print-crds | kubectl apply -f -    those CRDs, for a manager that may not install them
  go run ./examples/manager --driver=kwok                        Nodes of kwok in place of all infrastructure objects
  go run ./examples/manager orphans --driver=kwok                its instances without a Machine; it deletes nothing
  go run ./examples/manager --clusters=never                     Machines have no Cluster objects, although their CRD is installed

/healthz says that the process lives, /readyz that it has read the cluster once. SIGTERM ends it cleanly.
Exit codes: 0 ended by a signal, 1 failed, 2 wrong flags.

Flags:
`

// parse reads the flags. Help goes to out, and the error is flag.ErrHelp.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; empty: KUBECONFIG, ~/.kube/config, or the pod's service account")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "act only while holding a Lease, so that several replicas can run")
	flags.StringVar(&o.leaderElectionID, "leader-election-id", "machinist-manager", "`name` of the Lease")
	flags.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "`namespace` of the Lease; empty: the pod's own")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 serves none")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", disabled,
		"`address` of /metrics, which is neither encrypted nor protected; 0 serves none")
	flags.StringVar(&o.profilerAddress, "profiler-address", disabled,
		"`address` of /debug/pprof, which is neither encrypted nor protected; 0 serves none")
	flags.IntVar(&o.concurrency, "concurrency", 10, "Machines that are reconciled at the same time")
	flags.Float64Var(&o.qps, "kube-api-qps", -1,
		"requests a second, with bursts of twice that; -1 leaves the limit to the API server's priority and fairness")
	flags.DurationVar(&o.statusDelay, "status-delay", pass.DefaultStatusDelay,
		"delay before an intermediate status is written, at most five times this while it keeps changing; "+
			"a new Machine has no status before; 0 writes every stage, which costs more requests")
	flags.BoolVar(&o.workloadClusters, "workload-clusters", false,
		"find a Machine's Node in the workload cluster spec.clusterName, by Secret <cluster>-kubeconfig; "+
			"otherwise in the cluster of the Machines")
	flags.Float64Var(&o.workloadQPS, "workload-api-qps", -1,
		"requests a second to each workload cluster, with bursts of 1.5 times that; -1 for no limit")
	flags.StringVar(&o.workloadProbe, "workload-probe-path", "/readyz",
		"`path` for readiness probes of workload clusters' API servers; / for Cluster API's in-memory one")
	flags.StringVar(&o.clusters, "clusters", clustersAuto,
		"whether Machines follow the Cluster object of spec.clusterName: while it is paused they are not reconciled, and without it "+
			"they are only deleted; auto: if the kind is served when the manager starts, and --api-group is cluster.x-k8s.io; always; "+
			"never: there are no Cluster objects")
	o.kindFlags(flags)
	o.driver.flags(flags)
	o.safety.flags(flags)
	flags.StringVar(&o.watchFilter, "watch-filter", "",
		"reconcile only Machines whose label cluster.x-k8s.io/watch-filter has this `value`; empty: all")
	flags.StringVar(&o.logFormat, "log-format", logText, "text or json, on stderr")
	flags.IntVar(&o.verbosity, "v", 0, "log verbosity; 1 and more are for debugging")
	o.rbacFlags(flags)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(out, usage)
			flags.SetOutput(out)
			flags.PrintDefaults()
		}
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: everything is a flag", flags.Arg(0))
	}
	return o, o.validate()
}

// kindFlags adds the flags for what is reconciled beside Machines.
func (o *options) kindFlags(flags *flag.FlagSet) {
	groupFlag(flags, &o.group)
	flags.BoolVar(&o.machineSets, "machinesets", false, "reconcile MachineSets too")
	flags.BoolVar(&o.machineDeployments, "machinedeployments", false, "reconcile MachineDeployments too; their MachineSets need --machinesets")
	flags.BoolVar(&o.machinePools, "machinepools", false, "reconcile MachinePools too; the CustomResourceDefinition must be installed")
	flags.StringVar((*string)(&o.poolGroup), "machinepool-group", "",
		"API `group` of the MachinePools, if it differs from --api-group: a HorizontalPodAutoscaler can scale those of machinist.dev, "+
			"and providers for Cluster API know those of cluster.x-k8s.io")
	flags.BoolVar(&o.machineHealthChecks, "machinehealthchecks", false,
		"reconcile MachineHealthChecks too; the owners of unhealthy Machines, or the objects of --remediation-resources, remediate them")
	flags.StringVar(&o.healthCheckPolicy, "machinehealthcheck-policy", policySafe,
		"safe: Machines that become unhealthy at once, all or most of a failure domain, are not remediated, nor many that do not start; "+
			"cluster-api: what a MachineHealthCheck allows is remediated")
}

// rbacFlags adds the flags for printing rights and CRDs.
func (o *options) rbacFlags(flags *flag.FlagSet) {
	flags.BoolVar(&o.printRBAC, "print-rbac", false,
		"print the ClusterRole that is needed with the other flags, with --leader-elect a Role for the Lease too, and end")
	flags.BoolVar(&o.printNodeRBAC, "print-node-rbac", false,
		"print the ClusterRole that --workload-clusters needs in each of them, for the user of its kubeconfig, and end")
	flags.BoolVar(&o.printCRDs, "print-crds", false,
		"print the CustomResourceDefinitions of machinist.dev, with --driver-as=inframachine those of the driver too, and end")
	flags.BoolVar(&o.installCRDs, "install-crds", false,
		"at the start, apply the manager's own CustomResourceDefinitions that the other flags need, and wait until they are served")
	flags.BoolVar(&o.ownersEnforced, "owner-references-enforced", false,
		"for --print-rbac: the API server has the admission plugin OwnerReferencesPermissionEnforcement, as OpenShift's has")
	o.providerResources = []schema.GroupResource{{Group: "infrastructure.cluster.x-k8s.io", Resource: "*"},
		{Group: "bootstrap.cluster.x-k8s.io", Resource: "*"}}
	o.controlPlaneResources = []schema.GroupResource{{Group: "controlplane.cluster.x-k8s.io", Resource: "*"}}
	flags.Var((*resources)(&o.providerResources), "provider-resources",
		"for --print-rbac: infrastructure and bootstrap objects that Machines refer to, as `resource.group,...`")
	flags.Var((*resources)(&o.remediationResources), "remediation-resources",
		"for --print-rbac: what remediation templates of MachineHealthChecks make, as `resource.group,...`")
	flags.Var((*resources)(&o.controlPlaneResources), "control-plane-resources",
		"for --print-rbac: control planes that Clusters refer to, as `resource.group,...`; they are only read")
}

// resources is the value of a flag with a list of resources and their groups.
type resources []schema.GroupResource

// String implements flag.Value.
func (r *resources) String() string {
	var names []string
	for _, resource := range *r {
		names = append(names, resource.String())
	}
	return strings.Join(names, ",")
}

// Set implements flag.Value.
func (r *resources) Set(value string) error {
	*r = nil
	for name := range strings.SplitSeq(value, ",") {
		if name == "" {
			continue
		}
		resource := schema.ParseGroupResource(name)
		if resource.Group == "" {
			return fmt.Errorf("%q: give the resource with its group, such as awsmachines.infrastructure.cluster.x-k8s.io", name)
		}
		*r = append(*r, resource)
	}
	return nil
}

// validate reports all errors at once.
func (o options) validate() error {
	errs := []error{o.validSelection(), o.validPolicy(), o.driver.validate(), o.safety.validate()}
	for _, b := range o.bound() {
		errs = append(errs, validAddress(b.flag, b.address))
	}
	if o.concurrency < 1 {
		errs = append(errs, fmt.Errorf("--concurrency %d: give at least 1", o.concurrency))
	}
	errs = append(errs, validQPS("kube-api-qps", o.qps), validQPS("workload-api-qps", o.workloadQPS))
	if !strings.HasPrefix(o.workloadProbe, "/") {
		errs = append(errs, fmt.Errorf("--workload-probe-path %q: give a path that begins with a slash, such as /readyz", o.workloadProbe))
	}
	if o.statusDelay < 0 {
		errs = append(errs, fmt.Errorf("--status-delay %s: give a time such as 1s, or 0", o.statusDelay))
	}
	if o.leaderElect && o.leaderElectionID == "" {
		errs = append(errs, errors.New("--leader-election-id is empty: give the name of a Lease"))
	}
	if o.logFormat != logText && o.logFormat != logJSON {
		errs = append(errs, fmt.Errorf("--log-format %q: give text or json", o.logFormat))
	}
	if o.verbosity < 0 || o.verbosity > 10 {
		errs = append(errs, fmt.Errorf("--v %d: give 0 to 10", o.verbosity))
	}
	return errors.Join(errs...)
}

// validSelection validates which Machines are reconciled, and how.
func (o options) validSelection() error {
	if !slices.Contains([]string{clustersAuto, clustersAlways, clustersNever}, o.clusters) {
		return fmt.Errorf("--clusters %q: give auto, always or never", o.clusters)
	}
	if err := errors.Join(validGroup("api-group", o.group), validGroup("machinepool-group", o.groupOfPools())); err != nil {
		return err
	}
	if o.installCRDs && len(ownCRDs(o)) == 0 {
		return fmt.Errorf("--install-crds: the other flags need no CRD of the manager's own: give --api-group=%s", api.Machinist)
	}
	if wrong := validation.IsValidLabelValue(o.watchFilter); len(wrong) > 0 {
		return fmt.Errorf("--watch-filter %q: give the value of a label: %s", o.watchFilter, strings.Join(wrong, "; "))
	}
	return nil
}

func validQPS(flag string, qps float64) error {
	if math.IsNaN(qps) || qps == 0 || qps < 0 && qps != -1 || qps > math.MaxInt32/2 {
		return fmt.Errorf("--%s %v: give a positive number of requests a second, or -1 for no limit", flag, qps)
	}
	return nil
}

func validAddress(flag, address string) error {
	if address == disabled {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("--%s %q: give host:port, :port, or 0 for none", flag, address)
	}
	return nil
}

// bound is a flag with a listen address.
type bound struct{ flag, address string }

func (o options) bound() []bound {
	return []bound{
		{"health-probe-bind-address", o.probeAddress}, {"metrics-bind-address", o.metricsAddress}, {"profiler-address", o.profilerAddress},
	}
}

// freeAddresses listens at each address for a moment. The manager's own error, which may come after its start, names no
// flag.
func (o options) freeAddresses(ctx context.Context) error {
	var held []net.Listener
	defer func() { // after all were tried: two flags may have the same address
		for _, listener := range held {
			_ = listener.Close()
		}
	}()
	for _, b := range o.bound() {
		if b.address == disabled || b.address == "" {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", b.address)
		if err != nil {
			return fmt.Errorf("--%s %s: %w; give another address, or 0 for none", b.flag, b.address, err)
		}
		held = append(held, listener)
	}
	return nil
}

func (o options) logHandler(out io.Writer) slog.Handler {
	level := &slog.HandlerOptions{Level: slog.Level(-o.verbosity)} // logr's V(n) is slog's level -n
	if o.logFormat == logJSON {
		return slog.NewJSONHandler(out, level)
	}
	return slog.NewTextHandler(out, level)
}
