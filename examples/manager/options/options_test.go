package options_test

import (
	"flag"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/examples/manager/options"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// parse reads flags, and validates them.
func parse(args ...string) (options.Options, error) {
	o := options.Defaults()
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	return o, o.Validate()
}

// defaultSafety are Gardener's defaults, and ours for what it does not have.
func defaultSafety() options.Safety {
	return options.Safety{
		Limits: scale.FreezeLimits{Up: 2, Down: 1}, FreezePeriod: time.Minute, GatePeriod: time.Minute, GateTolerance: 30 * time.Second,
		OrphanPeriod: 15 * time.Minute,
		Orphans:      guard.OrphanLimits{Confirmations: 3, Age: 30 * time.Minute, PerPass: 1, StartDelay: 10 * time.Minute},
	}
}

func TestFlagsHaveUsefulDefaults(t *testing.T) {
	t.Parallel()
	got, err := parse()
	require.NoError(t, err)
	want := options.Options{
		Kinds:    options.Kinds{Group: "cluster.x-k8s.io"},
		Machines: options.Machines{Workers: 10, StatusDelay: time.Second, Clusters: "auto"},
		Workload: options.Workload{QPS: -1, ProbePath: "/readyz"},
		Safety:   defaultSafety(), Driver: options.Driver{As: "step", QPS: 20},
		LeaderElection: options.LeaderElection{
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		},
		Serving: options.Serving{ProbeAddress: ":8081", MetricsAddress: ":8085", MetricsSecure: true, ProfilerAddress: "0"},
		Client:  options.Client{QPS: -1}, Logging: options.Logging{Format: "text"},
		Printing: options.Printing{
			ProviderResources: []schema.GroupResource{
				{Group: "infrastructure.cluster.x-k8s.io", Resource: "*"}, {Group: "bootstrap.cluster.x-k8s.io", Resource: "*"},
			},
			ControlPlaneResources: []schema.GroupResource{{Group: "controlplane.cluster.x-k8s.io", Resource: "*"}},
		},
	}
	require.Empty(t, cmp.Diff(want, got))
	require.Empty(t, cmp.Diff(want, options.Defaults()))
}

func TestFlagsAreTaken(t *testing.T) {
	t.Parallel()
	got, err := parse(
		"--kubeconfig", "k.yaml", "--leader-elect", "--leader-election-id=x", "--leader-election-namespace=y",
		"--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=:8080", "--metrics-cert-path=certs",
		"--pprof-bind-address=127.0.0.1:6060",
		"--worker-count=3", "--kube-api-qps=20", "--kube-api-burst=25", "--namespace=a,b", "--namespace=c",
		"--join-cluster-timeout=25m", "--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s", "--leader-elect-retry-period=5s",
		"--workload-api-qps=5.5",
		"--status-delay=0", "--old-contracts", "--log-format=json", "-v=2", "--workload-clusters", "--workload-probe-path=/", "--clusters=never",
		"--watch-filter=ours", "--machinepools", "--machinepool-group=machinist.dev",
		"--machinehealthchecks", "--remediation-resources=cycles.example.com",
		"--provider-resources=awsmachines.infrastructure.cluster.x-k8s.io", "--control-plane-resources=", "--owner-references-enforced",
	)
	require.NoError(t, err)
	want := options.Options{
		Kinds: options.Kinds{
			Group: "cluster.x-k8s.io", MachinePools: true, PoolGroup: "machinist.dev", MachineHealthChecks: true,
			JoinTimeout: 25 * time.Minute,
		},
		Machines: options.Machines{Workers: 3, Clusters: "never", Namespaces: []string{"a", "b", "c"}, WatchFilter: "ours", OldContracts: true},
		Workload: options.Workload{Enabled: true, QPS: 5.5, ProbePath: "/"},
		Safety:   defaultSafety(), Driver: options.Driver{As: "step", QPS: 20},
		LeaderElection: options.LeaderElection{
			Enabled: true, ID: "x", Namespace: "y", LeaseDuration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 5 * time.Second,
		},
		Serving: options.Serving{
			ProbeAddress: "127.0.0.1:0", MetricsAddress: ":8080", MetricsSecure: true, MetricsCertPath: "certs", ProfilerAddress: "127.0.0.1:6060",
		},
		Client: options.Client{Kubeconfig: "k.yaml", QPS: 20, Burst: 25}, Logging: options.Logging{Format: "json", Verbosity: 2},
		Printing: options.Printing{
			OwnersEnforced:       true,
			RemediationResources: []schema.GroupResource{{Group: "example.com", Resource: "cycles"}},
			ProviderResources:    []schema.GroupResource{{Group: "infrastructure.cluster.x-k8s.io", Resource: "awsmachines"}},
		},
	}
	require.Empty(t, cmp.Diff(want, got))
}

// With one Lease, the manager of one part would never act.
func TestManagersOfPartsOfAFleetNeedLeasesOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"--namespace=a", "--watch-filter=a"} {
		_, err := parse("--leader-elect", part)
		require.ErrorContains(t, err, "--leader-election-id: give a name of its own")
		_, err = parse("--leader-elect", part, "--leader-election-id=a")
		require.NoError(t, err)
		_, err = parse(part)
		require.NoError(t, err)
	}
	o, err := parse("--leader-elect", "--watch-filter=a", "--leader-election-id="+options.DefaultLease)
	require.NoError(t, err, "it is given")
	require.Equal(t, options.DefaultLease, o.LeaderElection.Lease())
	o, err = parse("--leader-elect")
	require.NoError(t, err)
	require.Equal(t, options.DefaultLease, o.LeaderElection.Lease())
}

func TestFlagsOfTheDriverAreTaken(t *testing.T) {
	t.Parallel()
	got, err := parse(
		"--driver=kwok", "--driver-as=inframachine", "--driver-kubeconfig=far.yaml", "--driver-qps=5", "--driver-latency=1s",
		"--driver-boot-time=2s", "--driver-hidden-time=3s", "--driver-deletion-time=4s", "--driver-quota=6", "--driver-refuse-qps=7",
		"--driver-lose-every=8", "--driver-credentials=secret:system/cloud,environment:TOKEN", "--driver-credentials=metadata:http://a/b?c=d",
	)
	require.NoError(t, err)
	require.Equal(t, options.Driver{
		Name: "kwok", As: "inframachine", Kubeconfig: "far.yaml", QPS: 5, Latency: time.Second, Boot: 2 * time.Second, Hidden: 3 * time.Second,
		Deletion: 4 * time.Second, Quota: 6, RefuseQPS: 7, LoseEvery: 8,
		Credentials: []string{"secret:system/cloud", "environment:TOKEN", "metadata:http://a/b?c=d"},
	}, got.Driver)
	require.True(t, got.Driver.IsProvider())
	require.False(t, got.Driver.IsStep())
	for flags, want := range map[string]string{
		"--driver=aws": `--driver "aws": give kwok`, "--driver-as=webhook": `--driver-as "webhook": give step or inframachine`,
		"--driver-qps=0": "--driver-qps 0: give", "--driver-latency=-1s": "--driver-latency -1s: give", "--driver-quota=-1": "give 0 or more",
	} {
		_, err := parse("--driver=kwok", flags)
		require.ErrorContains(t, err, want)
	}
}

func TestWrongSourcesOfCredentialsAreExplained(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{
		"token", "secret:cloud", "secret:/cloud", "secret:a/b/c", "secret:a/B", "environment:", "environment:A=B", "metadata:169.254.169.254",
		"metadata:ftp://a/b", "metadata:http://me:word@a/b", "metadata:http:///b", "class:small", "environment:B",
		"metadata:http://me:wo%rd@a/b", "metadata:me:word@a/b", "http://me:word@a/b", "me:word@a/b",
	} {
		_, err := parse("--driver=kwok", "--driver-credentials=environment:A,"+wrong)
		if wrong == "environment:B" {
			require.ErrorContains(t, err, "each once at most")
		}
		shown := wrong
		if kind, _, _ := strings.Cut(wrong, ":"); kind == "metadata" {
			shown = "metadata:..."
		} else if !slices.Contains([]string{"class", "secret", "environment"}, kind) {
			shown = "..." // it may be a token
		}
		require.NotContains(t, err.Error(), "rd@a")
		require.ErrorContains(t, err, "invalid --driver-credentials "+strconv.Quote(shown)+
			": must be class, secret:NAMESPACE/NAME, environment:VARIABLE or metadata:URL", wrong)
	}
	for _, flag := range []string{"--driver-as=inframachine", "--api-group=cluster.k8s.io"} {
		_, err := parse("--driver=kwok", "--driver-credentials=class", flag)
		require.ErrorContains(t, err, `invalid --driver-credentials "class": must be absent where Machines have no MachineClasses`)
	}
	o, err := parse("--driver-credentials=token")
	require.NoError(t, err, "there is no driver")
	require.False(t, o.Driver.HasCredentials())
}

func TestWrongFlagsOfTheSafetyAreExplained(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"--safety-up=0": "--safety-up 0, --safety-down 1: give at least 1",
		"--machine-safety-apiserver-statuscheck-period=10s": "--machine-safety-apiserver-statuscheck-period 10s: give at least the timeout, 30s",
		"--machine-safety-orphan-vms-period=-1s":            "--machine-safety-...: give times such as 1m, or 0",
	} {
		_, err := parse(flags)
		require.ErrorContains(t, err, want)
	}
	_, err := parse("--machine-safety-collect-orphans", "--machine-safety-orphan-limit=0")
	require.ErrorContains(t, err, "--machine-safety-orphan-limit: give at least 1")
	_, err = parse("--machine-safety-overshooting-period=0", "--machine-safety-apiserver-statuscheck-period=0",
		"--machine-safety-orphan-vms-period=0")
	require.NoError(t, err, "each can be switched off")
}

func TestAnAddressIsLookedAtBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	same := listener.Addr().String()
	s := options.Serving{ProbeAddress: same, MetricsAddress: same, ProfilerAddress: options.Disabled}
	require.ErrorContains(t, s.Free(t.Context()), "--metrics-bind-address "+same, "two flags with one address")
	s.MetricsAddress = ""
	require.NoError(t, s.Free(t.Context()), "nothing is kept")
}

func TestAFlagWithAnotherNameIsTheSameFlag(t *testing.T) {
	t.Parallel()
	got, err := parse("--worker-count=3", "--concurrency=4", "--profiler-address=:6060")
	require.NoError(t, err)
	require.Equal(t, 4, got.Machines.Workers, "the last one counts")
	require.Equal(t, ":6060", got.Serving.ProfilerAddress)
	flags := options.Group{Name: "Machines", Section: &got.Machines}.Flags()
	require.Equal(t, "worker-count", options.AliasOf(flags.Lookup("concurrency")))
	require.Empty(t, options.AliasOf(flags.Lookup("worker-count")))
	require.Contains(t, flags.Lookup("concurrency").Usage, "of --worker-count, by another name")
}

func TestBurstsAreTwiceTheRequestsUnlessTheyAreGiven(t *testing.T) {
	t.Parallel()
	got, err := parse("--kube-api-qps=20")
	require.NoError(t, err)
	require.Equal(t, 40, got.Client.Bursts())
	got, err = parse("--kube-api-qps=20", "--kube-api-burst=30")
	require.NoError(t, err)
	require.Equal(t, 30, got.Client.Bursts())
}

func TestAProgramCanHaveDefaultsOfItsOwn(t *testing.T) {
	t.Parallel()
	o := options.Defaults()
	o.Machines.Workers, o.Kinds.Group, o.Kinds.MachineSets = 50, "machinist.dev", true
	flags := flag.NewFlagSet("embedder", flag.ContinueOnError)
	o.AddFlags(flags)
	require.NoError(t, flags.Parse([]string{"--machinesets=false"}))
	require.Equal(t, 50, o.Machines.Workers)
	require.Equal(t, "machinist.dev", string(o.Kinds.Group))
	require.False(t, o.Kinds.MachineSets)
	require.Equal(t, "50", flags.Lookup("worker-count").DefValue, "help shows it")
}

func TestHelpHasGroupsThatAreSortedWithDefaults(t *testing.T) {
	t.Parallel()
	o := options.Defaults()
	var out strings.Builder
	o.PrintHelp(&out)
	var headings, names []string
	for line := range strings.Lines(out.String()) {
		switch {
		case strings.HasSuffix(line, " flags:\n"):
			require.True(t, slices.IsSorted(names), names)
			headings, names = append(headings, strings.TrimSuffix(line, " flags:\n")), nil
		case strings.HasPrefix(line, "  -"):
			names = append(names, strings.Fields(line)[0])
		}
	}
	require.Equal(t, []string{"Configuration", "Kinds", "Machines", "Workload clusters", "Safety", "Driver", "Leader election", "Serving",
		"Client", "Logging",
		"Printing"}, headings)
	require.Contains(t, out.String(), `(default ":8085")`)
	require.Contains(t, out.String(), "(default 10)")
}

func TestEachFlagIsInOneGroup(t *testing.T) {
	t.Parallel()
	o := options.Defaults()
	all := flag.NewFlagSet("all", flag.ContinueOnError)
	o.AddFlags(all) // it panics for a flag that is defined twice
	in := map[string]string{}
	for _, g := range o.Groups() {
		g.Flags().VisitAll(func(f *flag.Flag) {
			require.Empty(t, in[f.Name], "--%s is in %s too", f.Name, g.Name)
			in[f.Name] = g.Name
			require.Equal(t, all.Lookup(f.Name).DefValue, f.DefValue)
		})
	}
	all.VisitAll(func(f *flag.Flag) { require.NotEmpty(t, in[f.Name], f.Name) })
	require.Greater(t, len(in), 50)
}
