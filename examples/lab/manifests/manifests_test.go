//go:build e2e

// Package manifests_test installs the manifests of examples/manager on a real control plane.
package manifests_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/internal/apitest/published"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/examples/lab/chaos"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const (
	namespace = "machinist-system"
	name      = "machinist-manager"
	// prometheusOperator has the CRDs of ServiceMonitors and PrometheusRules.
	prometheusOperator = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

	root = "../../.." // from this folder
)

// tool returns the program in an environment variable, which "make verify-manifests" sets.
func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	require.NotEmpty(t, path, "%s is not set: run make verify-manifests", variable)
	return path
}

// run runs a program, and returns its standard output and all that it wrote.
func run(t *testing.T, program string, args ...string) (stdout, all string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	return out.String(), out.String() + problems.String(), err
}

// succeeds is run for a program that must not fail. It returns the standard output.
func succeeds(t *testing.T, program string, args ...string) string {
	t.Helper()
	stdout, all, err := run(t, program, args...)
	require.NoError(t, err, "%s %s: %s", filepath.Base(program), strings.Join(args, " "), all)
	return stdout
}

// site is a real control plane without Nodes, and kubectl for it.
type site struct {
	t       *testing.T
	plane   *cluster.ControlPlane
	program string
}

func newSite(t *testing.T) *site {
	t.Helper()
	plane, err := cluster.Start(t.Context(), cluster.Options{
		Log: os.Stderr, Without: []cluster.Component{cluster.Scheduler, cluster.Kwok}, NoAudit: true,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	binaries, err := cluster.Build(t.Context(), os.Stderr)
	require.NoError(t, err)
	return &site{t, plane, binaries.ControlPlane}
}

func (s *site) kubectl(args ...string) string {
	s.t.Helper()
	return succeeds(s.t, s.program, append([]string{"kubectl", "--kubeconfig", s.plane.Kubeconfig()}, args...)...)
}

// dryRun applies manifests without storing them, and returns what kubectl says.
func (s *site) dryRun(manifests string) (string, error) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "manifests.yaml")
	require.NoError(s.t, os.WriteFile(file, []byte(manifests), 0o600))
	_, all, err := run(s.t, s.program, "kubectl", "--kubeconfig", s.plane.Kubeconfig(),
		"apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", file)
	return all, err
}

// until waits for a condition.
func (s *site) until(what string, holds func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return holds(), nil
	})
	require.NoError(s.t, err, what)
}

// TestManifestsWorkOnARealAPIServer applies what kustomize builds without storing it, and then installs the chart: its Pods pass the
// restricted Pod security standard, and a manager with the flags and the rights of their service account installs its CRDs and leads.
func TestManifestsWorkOnARealAPIServer(t *testing.T) {
	helm, kustomize, manager := tool(t, "HELM"), tool(t, "KUSTOMIZE"), filepath.Join(t.TempDir(), "manager")
	succeeds(t, "go", "build", "-buildvcs=false", "-o", manager, "github.com/machinist-dev/machinist/examples/manager")
	s := newSite(t)
	t.Chdir(filepath.Join(root, "examples", "manager", "deploy"))
	monitoring, err := published.CRDs(t.Context(), prometheusOperator, "example/prometheus-operator-crd/*.yaml")
	require.NoError(t, err)
	require.NoError(t, cluster.InstallCRDs(t.Context(), s.plane.Config(), monitoring["ServiceMonitor"], monitoring["PrometheusRule"]))
	s.kubectl("apply", "-f", filepath.Join("base", "namespace.yaml"))
	built := succeeds(t, kustomize, "build", "overlay")
	dry, err := s.dryRun(built)
	require.NoError(t, err, dry)
	require.Equal(t, 20, strings.Count(dry, "serverside-applied (server dry run)"), dry)
	for _, field := range []string{"interval: ", "for: "} { // of the ServiceMonitor, and of the first alert
		require.Contains(t, built, field)
		dry, err = s.dryRun(strings.Replace(built, field, field+"soon ", 1))
		require.Error(t, err, "the schemas of prometheus-operator refuse what is no duration")
		require.Contains(t, dry, "should match '^(0|", "%s", field)
	}
	t.Chdir(root)
	dry = s.kubectl(append(documented(t, "kubectl apply --server-side -k "), "--dry-run=server", "--validate=strict")...)
	require.Equal(t, 18, strings.Count(dry, "serverside-applied (server dry run)"), dry)

	notes := succeeds(t, helm, append(documented(t, "helm install "), "--kubeconfig", s.plane.Kubeconfig())...)
	require.Contains(t, notes, "kubectl -n machinist-system rollout status deployment machinist-manager")
	s.runsAsItsPodsWould(manager, s.pod())
	require.Contains(t, s.kubectl("get", "crds", "-o", "name"), "machines.machinist.dev")
	s.kubectl("get", "machines.machinist.dev", "--all-namespaces") // as the notes say
}

// documented returns the arguments of the command that begins with some words in README.md, and in the documentation of the manager.
func documented(t *testing.T, begin string) []string {
	t.Helper()
	var found []string
	for _, file := range []string{"README.md", filepath.Join("examples", "manager", "doc.go")} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, rest, ok := strings.Cut(string(text), begin)
		require.True(t, ok, "%s does not say %s", file, begin)
		command, _, _ := strings.Cut(begin+rest, "\n")
		found = append(found, command)
	}
	require.Equal(t, found[0], found[1])
	return strings.Fields(found[0])[1:]
}

// pod waits until both replicas exist, and returns one.
func (s *site) pod() corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	s.until("two Pods", func() bool {
		list := s.kubectl("get", "pods", "-n", namespace, "-l", "app.kubernetes.io/name="+name, "-o", "yaml")
		require.NoError(s.t, yaml.Unmarshal([]byte(list), &pods))
		return len(pods.Items) == 2
	})
	return pods.Items[0]
}

// runsAsItsPodsWould runs the program of a Pod as its service account until it leads, and stops it.
func (s *site) runsAsItsPodsWould(program string, pod corev1.Pod) {
	s.t.Helper()
	cfg, err := s.plane.ConfigFor("system:serviceaccount:"+namespace+":"+pod.Spec.ServiceAccountName,
		"system:serviceaccounts", "system:serviceaccounts:"+namespace)
	require.NoError(s.t, err)
	dir := s.t.TempDir()
	kubeconfig, log := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "log")
	require.NoError(s.t, cluster.WriteKubeconfig(kubeconfig, cfg))
	probes, metrics := freeAddress(s.t), freeAddress(s.t)
	args := slices.Concat(pod.Spec.Containers[0].Args, []string{
		"--kubeconfig", kubeconfig, "--leader-election-namespace", namespace, "--health-probe-bind-address", probes,
		"--metrics-bind-address", metrics,
	})
	manager := chaos.NewProgram("manager", log, program, args...)
	require.NoError(s.t, manager.Start())
	s.until("the manager is ready and leads", func() bool {
		if ended := manager.Endings(); ended > 0 {
			text, _ := os.ReadFile(log)
			s.t.Fatalf("the manager has ended: %s", text)
		}
		for _, probe := range []string{"/healthz", "/readyz"} {
			response, err := http.Get("http://" + probes + probe) //nolint:noctx // a test
			if err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusOK {
				return false
			}
		}
		return s.kubectl("get", "leases", "-n", namespace, name, "--ignore-not-found", "-o", "jsonpath={.spec.holderIdentity}") != ""
	})
	s.readsMetrics("https://" + metrics + "/metrics")
	require.NoError(s.t, manager.Stop())
	text, err := os.ReadFile(log)
	require.NoError(s.t, err)
	require.NotContains(s.t, string(text), "forbidden")
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// readsMetrics scrapes as a service account that becomes a reader as the notes of the chart say.
func (s *site) readsMetrics(url string) {
	s.t.Helper()
	s.kubectl("create", "serviceaccount", "prometheus", "-n", namespace)
	token := strings.TrimSpace(s.kubectl("create", "token", "prometheus", "-n", namespace))
	require.Equal(s.t, http.StatusUnauthorized, scrape(s.t, url, ""))
	require.Equal(s.t, http.StatusUnauthorized, scrape(s.t, url, token[:len(token)-8]))
	require.Equal(s.t, http.StatusForbidden, scrape(s.t, url, token))
	s.kubectl("create", "clusterrolebinding", name+"-metrics-reader", "--clusterrole="+name+"-metrics-reader",
		"--serviceaccount="+namespace+":prometheus")
	s.until("the metrics are served", func() bool { return scrape(s.t, url, token) == http.StatusOK })
}

func scrape(t *testing.T, url, token string) int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as the ServiceMonitor has it
	}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}
