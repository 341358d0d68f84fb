//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
	"github.com/machinist-dev/machinist/examples/lab/rights"
)

const (
	// moved is how many Machines are moved.
	moved = 20
	// mover and moverProvider are the users of the manager and of the provider, on each control plane.
	mover, moverProvider = "move-manager", "move-provider"
	// clusterctlLabel is what clusterctl finds CRDs by.
	clusterctlLabel = "clusterctl.cluster.x-k8s.io"
)

// movedCluster is a Cluster with a deployment, whose Nodes the provider makes.
func movedCluster() string {
	cluster := `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo, namespace: default}
spec: {clusterNetwork: {serviceDomain: cluster.local}}
---
`
	return cluster + strings.ReplaceAll(chaosFleet(moved, 1, 0), "bootstrap: {dataSecretName: boot}",
		"bootstrap: {dataSecretName: demo-boot}")
}

// newManagementCluster has what clusterctl and our programs need, and no object. The Nodes of all Machines are in the cluster of the
// kubeconfig.
func newManagementCluster(t *testing.T) *world {
	t.Helper()
	plane, err := cluster.Start(t.Context(), cluster.Options{Log: os.Stderr, PodTermination: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	live, err := client.NewWithWatch(plane.Config(), client.Options{})
	require.NoError(t, err)
	w := &world{t: t, plane: plane, client: live}
	crds, err := cluster.ClusterAPICRDs(t.Context(), "v1beta2")
	require.NoError(t, err)
	for document := range strings.SplitSeq(kwokdriver.CRDs(), "\n---\n") {
		crd := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &crd.Object))
		crds = append(crds, crd)
	}
	for _, crd := range crds {
		fake.WithLabels(map[string]string{clusterctlLabel: ""})(crd)
	}
	require.NoError(t, cluster.InstallCRDs(t.Context(), plane.Config(), crds...))
	return w
}

// runs starts a manager as a user with the rights that it asks for.
func (w *world) runs(user string, flags ...string) *managerProcess {
	w.t.Helper()
	binary := managerBinary(w.t)
	granted, err := rights.Grant(w.t.Context(), w.plane, user, asksFor(w.t, binary, flags...))
	require.NoError(w.t, err)
	return w.startManagerAs(granted, binary, nil, flags...)
}

// manages starts the manager and the provider. The Nodes are in the cluster of the kubeconfig.
func (w *world) manages(nodes string) {
	w.t.Helper()
	w.runs(mover, "--machinesets", "--machinedeployments", "--machinehealthchecks", "--workload-clusters")
	w.runs(moverProvider, "--watch-filter="+providerFilter, "--driver=kwok", "--driver-as=inframachine", "--driver-kubeconfig="+nodes,
		"--driver-qps=200")
}

// allThere waits until all Machines of a deployment are available.
func (w *world) allThere(want int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d available Machines", want), func() string {
		machines, available := w.listed(fake.MachineGVK()), 0
		said := ""
		for i := range machines {
			if countsAsAvailable(&machines[i]) {
				available++
			} else {
				said = machines[i].GetName() + ": " + describe(&machines[i])
			}
		}
		if len(machines) != want || available != want {
			return fmt.Sprintf("%d Machines, %d available\n%s", len(machines), available, said)
		}
		return ""
	})
}

// nodeUIDs are the Nodes of a cluster.
func (w *world) nodeUIDs() map[string]types.UID {
	w.t.Helper()
	all := map[string]types.UID{}
	for _, node := range w.listed(corev1.SchemeGroupVersion.WithKind("Node")) {
		all[node.GetName()] = node.GetUID()
	}
	return all
}

// clusterctl moves a Cluster between two control planes while our manager and our provider run on both. Nothing is made twice, and no
// Node is cordoned, drained or deleted.
func TestE2EAClusterIsMovedWhileOurManagersRun(t *testing.T) {
	clusterctl, err := arm.BuildClusterctl(t.Context(), progress.New(os.Stderr, "move"))
	require.NoError(t, err)
	from, to := newManagementCluster(t), newManagementCluster(t)
	nodes := from.plane.Kubeconfig() // the first one is the workload cluster too
	content, err := os.ReadFile(nodes)
	require.NoError(t, err)
	for name, data := range map[string]map[string][]byte{
		"demo-kubeconfig": {workloads.KubeconfigKey: content}, "demo-boot": {"value": []byte(bootData)},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{contract.ClusterNameLabel: "demo"},
		}, Data: data, Type: "cluster.x-k8s.io/secret"}
		require.NoError(t, from.client.Create(t.Context(), secret))
		if name == "demo-boot" { // a bootstrap provider would own it and so have it moved
			secret.ResourceVersion = ""
			require.NoError(t, to.client.Create(t.Context(), secret))
		}
	}
	arrived := to.marked()
	from.manages(nodes)
	to.manages(nodes)
	owned := from.apply(movedCluster())
	from.infrastructureIsReady(owned[0])
	from.allThere(moved)
	before, begin := from.nodeUIDs(), from.marked()

	admin := func(w *world, name string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, cluster.WriteKubeconfig(path, w.plane.Config()))
		return path
	}
	out, err := exec.CommandContext(t.Context(), clusterctl, "move", "--kubeconfig", admin(from, "from"), "--to-kubeconfig",
		admin(to, "to"), "--namespace", "default", "-v", "5").CombinedOutput()
	require.NoError(t, err, string(out))
	to.infrastructureIsReady(owned[0]) // clusterctl moves no status
	to.allThere(moved)
	to.atRest(managerAgent, arrived)

	require.Empty(t, from.listed(fake.MachineGVK()))
	require.Empty(t, from.listed(kwokdriver.GVK()))
	require.Len(t, to.listed(kwokdriver.GVK()), moved)
	require.Equal(t, before, from.nodeUIDs())
	require.Empty(t, to.nodeUIDs())
	for _, w := range []*world{from, to} {
		since := begin
		if w == to {
			since = arrived
		}
		events, err := w.plane.Audit().Since(since)
		require.NoError(t, err)
		written := events.From(managerAgent).Writes().Where(func(e cluster.AuditEvent) bool { return e.Resource != "leases" })
		t.Logf("our programs write: %s", written)
		require.Empty(t, written.Where(func(e cluster.AuditEvent) bool {
			return e.Verb == "delete" || e.Resource == "pods" || e.Verb == "create" && e.Resource != "events"
		}))
	}
	d := owned[2]
	to.scaleTo(d, moved+1)
	to.allThere(moved + 1)
	to.scaleTo(d, moved-1)
	to.allThere(moved - 1)
	require.Len(t, from.nodeUIDs(), moved-1)
}

func (w *world) marked() cluster.AuditMark {
	w.t.Helper()
	m, err := w.plane.Audit().Mark()
	require.NoError(w.t, err)
	return m
}

// infrastructureIsReady says of a Cluster what Cluster API's manager would, which does not run.
func (w *world) infrastructureIsReady(of *unstructured.Unstructured) {
	w.t.Helper()
	now := time.Now().UTC().Format(time.RFC3339)
	status := fmt.Sprintf(`{"status":{"initialization":{"infrastructureProvisioned":true,"controlPlaneInitialized":true},"conditions":[
		{"type":"ControlPlaneInitialized","status":"True","reason":"Initialized","message":"","lastTransitionTime":%q}]}}`, now)
	require.NoError(w.t, w.client.Status().Patch(context.WithoutCancel(w.t.Context()), of.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(status))))
}
