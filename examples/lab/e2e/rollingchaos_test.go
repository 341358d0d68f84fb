//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/fake"
	workloads "github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/examples/lab/chaos"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/rights"
)

const (
	// chaotic is how many Machines there are, chaoticSurge how many more there may be, and chaoticUnavailable how many may be unavailable.
	chaotic, chaoticSurge, chaoticUnavailable = 200, 20, 10
	// chaosSeed is the environment variable with the seed that is to be replayed.
	chaosSeed = "CHAOS_SEED"
	// providerFilter has the provider reconcile the infrastructure of the deployment, and no Machines.
	providerFilter = "kwok"
	// bootData is the first-boot data of all Machines, which is a credential.
	bootData = "first-boot data with a join token"
	// leaseOfManagers is the name of the Lease of the manager that leads.
	leaseOfManagers = "chaos"
)

// Users of the API server.
const (
	managerA, managerB, providerUser, nodesUser = "chaos-manager-a", "chaos-manager-b", "chaos-provider", "chaos-nodes"
)

// chaosFleet is the deployment, whose Nodes the provider makes.
func chaosFleet(replicas, surge, unavailable int) string {
	return fmt.Sprintf(`apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: KwokMachineTemplate
metadata: {name: fleet, namespace: default}
spec: {template: {metadata: {labels: {%s: %s}}, spec: {cpu: "2"}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: fleet, namespace: default}
spec:
  clusterName: demo
  replicas: %d
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: %d, maxUnavailable: %d}}}
  selector: {matchLabels: {pool: fleet}}
  template:
    metadata: {labels: {pool: fleet}}
    spec:
      clusterName: demo
      version: v1.36.1
      bootstrap: {dataSecretName: boot}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: KwokMachineTemplate, name: fleet}
`, contract.WatchFilterLabel, providerFilter, replicas, surge, unavailable)
}

// chaosWorld is a deployment with two managers of which one leads, a provider, and a connection to the Nodes, each of which can be
// disturbed like the control plane itself.
type chaosWorld struct {
	*world

	seed     uint64
	logs     string
	link     *Link
	programs map[string]*chaos.Program
	fleet    *unstructured.Unstructured
	others   []*unstructured.Unstructured // what belongs to others, as it was
	version  int                          // of the Machines that are wanted
	start    time.Time
	secrets  []string // private keys

	mu   sync.Mutex
	lost []time.Time // when the API server or etcd was killed
	// leading is the manager that leads, as the audit log says up to heard.
	leading string
	heard   cluster.AuditMark
}

// replayed is the seed of the environment, or a new one.
func replayed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(chaosSeed)
	if text == "" {
		return uint64(time.Now().UnixNano()) % 1_000_000
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "%s is a number", chaosSeed)
	return seed
}

func newChaosWorld(t *testing.T) *chaosWorld {
	t.Helper()
	w := &chaosWorld{
		seed: replayed(t), logs: t.ArtifactDir(), programs: map[string]*chaos.Program{}, version: 1, start: time.Now(), leading: managerA,
	}
	t.Logf("the seed is %d: %s=%d replays the plan", w.seed, chaosSeed, w.seed)
	plane, err := cluster.Start(t.Context(), cluster.Options{
		Log: os.Stderr, PodTermination: time.Second, AuditObjects: []schema.GroupResource{
			{Resource: "pods"}, {Resource: "nodes"}, {Group: "cluster.x-k8s.io", Resource: "machines"},
			{Group: kwokdriver.GVK().Group, Resource: "kwokmachines"},
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	t.Cleanup(func() { w.saveLogs(plane) })
	w.world = newSetWorldOn(t, plane)
	for document := range strings.SplitSeq(kwokdriver.CRDs(), "\n---\n") {
		crd := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &crd.Object))
		require.NoError(t, cluster.InstallCRDs(t.Context(), plane.Config(), crd))
	}
	w.link, err = NewLink(t.Context(), strings.TrimPrefix(plane.Config().Host, "https://"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.link.Close()) })
	w.others = w.ofOthers()
	w.startPrograms()
	return w
}

// saveLogs keeps what a person needs to understand a failure; "go test -artifacts" does not delete it.
func (w *chaosWorld) saveLogs(plane *cluster.ControlPlane) {
	logs := []string{filepath.Join(plane.Dir(), "audit.log")}
	for _, c := range cluster.Components() {
		logs = append(logs, plane.Logs(c))
	}
	for _, path := range logs {
		content, err := os.ReadFile(path)
		require.NoError(w.t, err)
		require.NoError(w.t, os.WriteFile(filepath.Join(w.logs, filepath.Base(path)), content, 0o600))
	}
}

// startPrograms starts the managers and the provider, each with the rights that it asks for.
func (w *chaosWorld) startPrograms() {
	w.t.Helper()
	flags := []string{"--clusters=never", "--machinesets", "--machinedeployments", "--workload-clusters",
		"--leader-elect", "--leader-election-namespace=default", "--leader-election-id=" + leaseOfManagers}
	nodes := w.granted(nodesUser, append(flags, "--print-node-rbac")...)
	nodes.Host = "https://" + w.link.Address()
	w.secret("demo-kubeconfig", workloads.KubeconfigKey, w.kubeconfig(nodes))
	w.secret("boot", "value", []byte(bootData))
	for _, name := range []string{managerA, managerB} {
		w.program(name, flags...)
	}
	w.program(providerUser, "--clusters=never", "--watch-filter="+providerFilter, "--concurrency=30", "--driver=kwok",
		"--driver-as=inframachine", "--driver-qps=200", "--driver-latency=20ms", "--driver-lose-every=25")
}

// granted is the configuration of a user with the rights that the manager prints with some flags.
func (w *chaosWorld) granted(name string, flags ...string) *rest.Config {
	w.t.Helper()
	user, err := rights.Grant(w.t.Context(), w.plane, name, asksFor(w.t, managerBinary(w.t), flags...))
	require.NoError(w.t, err)
	return user.Config()
}

func (w *chaosWorld) kubeconfig(config *rest.Config) []byte {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "kubeconfig")
	require.NoError(w.t, cluster.WriteKubeconfig(path, config))
	w.secrets = append(w.secrets, string(config.KeyData))
	content, err := os.ReadFile(path)
	require.NoError(w.t, err)
	return content
}

func (w *chaosWorld) secret(name, key string, value []byte) {
	w.t.Helper()
	secret := &corev1.Secret{Data: map[string][]byte{key: value}}
	secret.Namespace, secret.Name = "default", name
	secret.Labels = map[string]string{contract.ClusterNameLabel: "demo"}
	require.NoError(w.t, w.client.Create(w.t.Context(), secret))
}

func (w *chaosWorld) program(name string, flags ...string) {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "kubeconfig")
	require.NoError(w.t, os.WriteFile(path, w.kubeconfig(w.granted(name, flags...)), 0o600))
	flags = append(flags, "-v=2")
	p := chaos.NewProgram(name, filepath.Join(w.logs, name+".log"), managerBinary(w.t),
		append([]string{"--kubeconfig", path, "--health-probe-bind-address=0", "--metrics-bind-address=0"}, flags...)...)
	require.NoError(w.t, p.Start())
	w.t.Cleanup(p.Kill)
	w.programs[name] = p
}

// ofOthers creates what is not the deployment's: a Node with a pod, an infrastructure object, and a paused Machine with labels of the
// deployment and another controller.
func (w *chaosWorld) ofOthers() []*unstructured.Unstructured {
	w.t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}}
	require.NoError(w.t, w.client.Create(w.t.Context(), owner))
	created := w.apply(`apiVersion: v1
kind: Node
metadata: {name: other, labels: {kubernetes.io/hostname: other}, annotations: {kwok.x-k8s.io/node: fake}}
spec: {providerID: "kwok://other", taints: [{key: other, effect: NoSchedule}]}
---
apiVersion: v1
kind: Pod
metadata: {name: other, namespace: default}
spec: {nodeName: other, containers: [{name: c, image: example.com/app}], tolerations: [{operator: Exists}]}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: KwokMachine
metadata: {name: other, namespace: default}
spec: {cpu: "2"}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  name: other
  namespace: default
  labels: {pool: fleet}
  annotations: {cluster.x-k8s.io/paused: ""}
  finalizers: [machine.cluster.x-k8s.io]
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: other, uid: ` + string(owner.UID) + `, controller: true}]
spec:
  clusterName: demo
  bootstrap: {dataSecretName: boot}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: KwokMachine, name: other}
`)
	return created
}

// machines are those of the deployment.
func (w *chaosWorld) machines(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fake.MachineGVK())
	if err := w.client.List(ctx, list); err != nil {
		return nil, err
	}
	var ours []unstructured.Unstructured
	for _, m := range list.Items {
		if owner := metav1.GetControllerOf(&m); owner != nil && owner.Kind == "MachineSet" {
			ours = append(ours, m)
		}
	}
	return ours, nil
}

func versionText(n int) string { return fmt.Sprintf("v1.36.%d", n) }

// unfinished says what is missing of the rollout to the wanted version.
func (w *chaosWorld) unfinished(ctx context.Context) (string, error) {
	ours, err := w.machines(ctx)
	if err != nil {
		return "", err
	}
	versions, available, left := map[string]int{}, 0, ""
	for i := range ours {
		version, _, _ := unstructured.NestedString(ours[i].Object, "spec", "version")
		if versions[version]++; version != versionText(w.version) && left == "" {
			left = ours[i].GetName() + " " + describe(&ours[i])
		}
		if countsAsAvailable(&ours[i]) {
			available++
		}
	}
	if len(versions) != 1 || versions[versionText(w.version)] != chaotic || available != chaotic {
		return fmt.Sprintf("%v, %d available, %s", versions, available, left), nil
	}
	return "", nil
}
