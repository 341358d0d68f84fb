package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/options"
	"github.com/machinist-dev/machinist/fake"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	m.Run()
}

// given returns the settings of flags. Nothing is served unless they say it.
func given(t *testing.T, flags ...string) settings {
	t.Helper()
	o, err := parse(append([]string{"--health-probe-bind-address=0", "--metrics-bind-address=0"}, flags...), io.Discard)
	require.NoError(t, err)
	return o
}

func TestAStatusDelayOfZeroMeansAtOnce(t *testing.T) {
	t.Parallel()
	require.Negative(t, statusDelay(given(t, "--status-delay=0")), "which the library spells as a negative time")
	require.Equal(t, time.Second, statusDelay(given(t)))
}

func TestPodsWithVolumesLeaveOneAfterTheOtherWhenAsked(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
	}}}}
	asked := given(t, "--drain-volumes-one-at-a-time")
	for name, rules := range map[string][]drain.Rule{
		"of a Machine": drainRules(asked)(nil, nil), "of a pool": inOrder(asked, drain.DefaultRules()),
	} {
		v := drain.Decide(pod, rules)
		require.Equal(t, drain.Evict, v.Action, name)
		require.Positive(t, v.Order, name)
	}
	require.Zero(t, drain.Decide(pod, drainRules(given(t))(nil, nil)).Order, "as Cluster API")
}

func TestWrongFlagsAreExplained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no workers":        {[]string{"--worker-count=0"}, "--worker-count 0: give at least 1"},
		"no workers either": {[]string{"--concurrency=0"}, "--worker-count 0: give at least 1"},
		"no burst":          {[]string{"--kube-api-burst=5"}, "--kube-api-burst 5: give 0, or with --kube-api-qps"},
		"no namespace":      {[]string{"--namespace=a,B"}, `--namespace "B": give names of namespaces`},
		"no checks":         {[]string{"--join-cluster-timeout=25m"}, "together with --machinehealthchecks"},
		"a short Lease": {[]string{"--leader-elect", "--leader-elect-lease-duration=10s"},
			"--leader-elect-lease-duration 10s: give more than"},
		"a short deadline": {[]string{"--leader-elect", "--leader-elect-renew-deadline=2s"},
			"--leader-elect-renew-deadline 2s: give more than 1.2 times of a positive --leader-elect-retry-period, 2s"},
		"no requests":       {[]string{"--kube-api-qps=0"}, "--kube-api-qps 0"},
		"negative requests": {[]string{"--kube-api-qps=-2"}, "--kube-api-qps -2"},
		"not a number":      {[]string{"--kube-api-qps=NaN"}, "--kube-api-qps NaN"},
		"workload requests": {[]string{"--workload-api-qps=0"}, "--workload-api-qps 0"},
		"a relative path": {[]string{"--workload-probe-path=readyz"},
			`--workload-probe-path "readyz": give a path that begins with a slash`},
		"negative delay":          {[]string{"--status-delay=-1s"}, "--status-delay -1s"},
		"an address without host": {[]string{"--health-probe-bind-address=8081"}, `--health-probe-bind-address "8081"`},
		"metrics address":         {[]string{"--metrics-bind-address=x"}, `--metrics-bind-address "x"`},
		"profiler address":        {[]string{"--profiler-address=x"}, `--pprof-bind-address "x"`},
		"a Lease without name":    {[]string{"--leader-elect", "--leader-election-id=", "--watch-filter=a"}, "--leader-election-id: give"},
		"log format":              {[]string{"--log-format=xml"}, `--log-format "xml"`},
		"verbosity":               {[]string{"-v=11"}, "--v 11"},
		"clusters":                {[]string{"--clusters=yes"}, `--clusters "yes": give auto, always or never`},
		"an unknown group": {[]string{"--machinepool-group=example.com"},
			`--machinepool-group "example.com": give cluster.x-k8s.io or machinist.dev`},
		"no group":       {[]string{"--provider-resources=awsmachines"}, "give the resource with its group"},
		"no label value": {[]string{"--watch-filter=a b"}, `--watch-filter "a b"`},
		"unknown flag":   {[]string{"--frobnicate"}, "frobnicate"},
		"an argument": {[]string{"run"}, `unexpected argument "run": everything is a flag, unless the first argument is one of the commands ` +
			"describe, orphans, rollout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitUsage, execute(c.args, &stdout, &stderr))
			require.Contains(t, stderr.String(), c.want)
			require.Contains(t, stderr.String(), "--help for help")
			require.Empty(t, stdout.String())
		})
	}
}

func TestHelpTeaches(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_, err := parse([]string{"--help"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, want := range []string{"--print-rbac | kubectl apply", "/readyz", "-leader-elect", "Exit codes", "--clusters=never",
		"watch-filter"} {
		require.Contains(t, out.String(), want)
	}
}

func TestAnUnusableClusterIsExplained(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for name, c := range map[string]struct{ kubeconfig, want string }{
		"no such file": {filepath.Join(t.TempDir(), "none"), "no such file"},
		"not YAML":     {write("{{"), "cannot be used"},
		"empty":        {write(""), "cannot be used"},
		"no answer": {write(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
			clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`), "connection refused"}, // a port that is never in use
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := given(t, "--kubeconfig", c.kubeconfig)
			cfg, err := restConfig(o.Client)
			if err == nil {
				_, err = newManager(t.Context(), cfg, o, logr.Discard())
			}
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "kubeconfig")
		})
	}
}

func TestAKubeconfigThatIsNotThereIsNamed(t *testing.T) {
	dir := t.TempDir()
	nowhere, empty := filepath.Join(dir, "nope"), filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for files, want := range map[string]string{
		nowhere:               nowhere + " does not exist",
		empty:                 empty + " names no cluster",
		nowhere + ":" + empty: nowhere + " does not exist, " + empty + " names no cluster",
	} {
		t.Setenv("KUBECONFIG", files)
		_, err := restConfig(options.Client{})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "KUBERNETES_MASTER")
	}
}

func TestMissingCRDsAreExplained(t *testing.T) {
	t.Parallel()
	_, err := newManager(t.Context(), fake.NewStore(fake.Options{}).RESTConfig(), settings{}, logr.Discard())
	require.ErrorContains(t, err, "does not serve machines of cluster.x-k8s.io/v1beta2: install Cluster API's CRDs")
	store := fake.NewStore(fake.Options{})
	require.NoError(t, store.Client().Create(t.Context(), fake.CRD(fake.MachineGVK())))
	_, err = newManager(t.Context(), store.RESTConfig(), given(t, "--machinepools"), logr.Discard())
	require.ErrorContains(t, err, "does not serve machinepools of cluster.x-k8s.io/v1beta2")
	_, err = newManager(t.Context(), store.RESTConfig(), given(t, "--machinehealthchecks"), logr.Discard())
	require.ErrorContains(t, err, "does not serve machinehealthchecks of cluster.x-k8s.io/v1beta2: install Cluster API's CRDs")
	_, err = newManager(t.Context(), store.RESTConfig(), given(t, "--machinepools",
		"--machinepool-group=machinist.dev"), logr.Discard())
	require.ErrorContains(t, err, "does not serve machinepools of machinist.dev/v1beta2: give --install-crds")
}

func TestClustersAreReadIfTheyAreServedOrAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flag         string
		served, want bool
		err          string
	}{
		{flag: options.ClustersAuto}, {flag: options.ClustersAuto, served: true, want: true},
		{flag: options.ClustersAlways, err: "does not serve clusters of cluster.x-k8s.io/v1beta2"},
		{flag: options.ClustersAlways, served: true, want: true},
		{flag: options.ClustersNever}, {flag: options.ClustersNever, served: true},
	} {
		store := fake.NewStore(fake.Options{})
		require.NoError(t, store.Client().Create(t.Context(), fake.CRD(fake.MachineGVK())))
		if c.served {
			require.NoError(t, store.Client().Create(t.Context(), fake.CRD(fake.ClusterGVK())))
		}
		has, err := settings{}.lookAtServer(store.RESTConfig())
		require.NoError(t, err)
		require.Equal(t, c.served, has.clusters)
		got, err := given(t, "--clusters="+c.flag).readsClusters(has.clusters)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%s, served: %v", c.flag, c.served)
	}
}

// With the flag, because everything on a real control plane runs without.
func TestTheManagerBecomesReadyFollowsItsFlagsAndEndsCleanly(t *testing.T) {
	t.Parallel()
	if ranBefore(t) { // with -count: the metrics and the names of controllers are those of the process
		again, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$").CombinedOutput()
		require.NoError(t, err, "%s", again)
		return
	}
	store := fake.NewStore(fake.Options{})
	for _, gvk := range []schema.GroupVersionKind{
		fake.MachineGVK(), fake.ClusterGVK(), api.ClusterAPI.MachineSet().GVK, api.ClusterAPI.MachineDeployment().GVK, fake.MachinePoolGVK(),
		fake.MachineHealthCheckGVK(),
	} {
		require.NoError(t, store.Client().Create(t.Context(), fake.CRD(gvk)))
	}
	free := freeAddresses(t, 3)
	o := given(t, "--workload-clusters", "--machinepools", "--machinehealthchecks", "--watch-filter=ours", "--status-delay=0",
		"--namespace=default", "--health-probe-bind-address", free[0], "--metrics-bind-address", free[1], "--metrics-secure=false",
		"--pprof-bind-address", free[2])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mgr, err := newManager(ctx, store.RESTConfig(), o, logr.Discard())
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	for _, path := range []string{"/healthz", "/readyz"} {
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			return answersOK(ctx, "http://"+o.Serving.ProbeAddress+path), nil
		})
		require.NoError(t, err, path)
	}
	require.True(t, answersOK(ctx, "http://"+o.Serving.ProfilerAddress+"/debug/pprof/"), "on a listener of its own")
	require.False(t, answersOK(ctx, "http://"+o.Serving.MetricsAddress+"/debug/pprof/"), "not beside the metrics")
	followsFlags(ctx, t, store)
	servesMetrics(ctx, t, store, o.Serving.MetricsAddress)
	recordsTraces(ctx, t, store, o.Serving.ProfilerAddress)
	namesMetrics(t)
	cancel()
	require.NoError(t, <-done)
}

// followsFlags: a Machine whose Cluster is paused says so, and one that is not to be looked after says nothing.
func followsFlags(ctx context.Context, t *testing.T, store *fake.Store) {
	t.Helper()
	labels := fake.WithLabels(map[string]string{contract.WatchFilterLabel: "ours"})
	ours, theirs, elsewhere := fake.Machine("ours", labels), fake.Machine("theirs"), fake.Machine("elsewhere", labels)
	elsewhere.SetNamespace("other")
	require.NoError(t, store.Client().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}))
	for _, obj := range []client.Object{fake.Cluster("demo", fake.WithField(true, "spec", "paused")), theirs, elsewhere, ours} {
		require.NoError(t, store.Client().Create(ctx, obj))
	}
	paused := metav1.Condition{}
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := store.Client().Get(ctx, client.ObjectKeyFromObject(ours), ours)
		paused, _, _ = contract.ConditionsAt("status", "conditions").Find(ours.Object, contract.ConditionPaused)
		return paused.Type != "", err
	})
	require.NoError(t, err)
	require.Equal(t, "Cluster spec.paused is set to true", paused.Message)
	require.NoError(t, store.Client().Get(ctx, client.ObjectKeyFromObject(theirs), theirs))
	require.Empty(t, theirs.GetFinalizers())
	require.NoError(t, store.Client().Get(ctx, client.ObjectKeyFromObject(elsewhere), elsewhere))
	require.Empty(t, elsewhere.GetFinalizers(), "it is in a namespace of others")
}

// freeAddresses returns addresses that differ.
func freeAddresses(t *testing.T, n int) (all []string) {
	t.Helper()
	listeners := make([]net.Listener, n)
	for i := range listeners {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listeners[i], all = listener, append(all, listener.Addr().String())
	}
	for _, listener := range listeners {
		require.NoError(t, listener.Close())
	}
	return all
}

func answersOK(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

func TestATakenPortNamesItsFlag(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	address := taken.Addr().String()
	for _, flag := range []string{"health-probe-bind-address", "metrics-bind-address", "pprof-bind-address"} {
		o := given(t, "--"+flag, address)
		_, err = newManager(t.Context(), fake.NewStore(fake.Options{}).RESTConfig(), o, logr.Discard())
		require.ErrorContains(t, err, "--"+flag+" "+address+": ")
		require.ErrorContains(t, err, "address already in use; give another address, or 0 for none")
	}
}

func TestTheWarningThatComesWithEveryMachineIsNotLogged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, current-context: c,
		contexts: [{name: c, context: {cluster: c}}],
		clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`), 0o600))
	cfg, err := restConfig(options.Client{Kubeconfig: path})
	require.NoError(t, err)
	var logged []string
	ctx := ctrllog.IntoContext(t.Context(), funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
	warn := func(text string) { cfg.WarningHandlerWithContext.HandleWarningHeaderWithContext(ctx, 299, "", text) }
	const rest = "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers"
	warn(`metadata.finalizers: "machine.cluster.x-k8s.io": ` + rest)
	warn(`metadata.finalizers: "machinepool.cluster.x-k8s.io": ` + rest)
	require.Empty(t, logged)
	warn(`metadata.finalizers: "mine": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers`)
	warn("cluster.x-k8s.io/v1beta1 Machine is deprecated; use cluster.x-k8s.io/v1beta2 Machine")
	require.Len(t, logged, 2)
}

func TestReadinessWaitsForTheCaches(t *testing.T) {
	t.Parallel()
	ready := &readiness{}
	require.ErrorIs(t, ready.check(nil), errNotRead)
	ready.done.Store(true)
	require.NoError(t, ready.check(nil))
	require.False(t, ready.NeedLeaderElection())
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatIsLostIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"--print-config"}, {"--print-crds"}, {"--print-rbac"}} {
		var stderr bytes.Buffer
		require.Equal(t, exitFailed, execute(args, full{}, &stderr), args)
		require.Equal(t, 1, strings.Count(stderr.String(), "no space left"), stderr.String())
	}
}
