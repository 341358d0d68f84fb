//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// deploymentDocument is a MachineDeployment as a person would write it, with two templates to choose from.
func deploymentDocument(name string, replicas int) string {
	infra := fake.InfraMachineGVK(contract.V1Beta2)
	return fmt.Sprintf(`apiVersion: %[2]s
kind: %[3]sTemplate
metadata: {name: %[1]s-blue, namespace: default}
spec: {template: {spec: {size: blue}}}
---
apiVersion: %[2]s
kind: %[3]sTemplate
metadata: {name: %[1]s-green, namespace: default}
spec: {template: {spec: {size: green}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: %[1]s, namespace: default}
spec:
  clusterName: demo
  replicas: %[4]d
  selector: {matchLabels: {pool: %[1]s}}
  template:
    metadata: {labels: {pool: %[1]s}}
    spec:
      clusterName: demo
      version: v1.36.3
      bootstrap: {dataSecretName: data}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: %[3]sTemplate, name: %[1]s-blue}
`, name, infra.GroupVersion(), infra.Kind, replicas)
}

// bounds are the largest number of Machines and the smallest number of available ones that were seen.
type bounds struct {
	mu          sync.Mutex
	most, least int
}

// watchBounds counts Machines until it is stopped. It lists and watches again when a watch ends, as with its API server.
func (w *world) watchBounds() (seen *bounds, stop func()) {
	w.t.Helper()
	watcher, err := client.NewWithWatch(w.plane.Config(), client.Options{})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	seen = &bounds{least: len(w.listed(fake.MachineGVK()))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			seen.follow(ctx, watcher)
			return false, nil
		})
	}()
	return seen, func() { cancel(); <-done }
}

// follow counts what one list and the watch from there on show.
func (b *bounds) follow(ctx context.Context, watcher client.WithWatch) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fake.MachineGVK().GroupVersion().WithKind("MachineList"))
	if watcher.List(ctx, list, client.InNamespace("default")) != nil {
		return
	}
	machines := map[string]bool{}
	for i := range list.Items {
		machines[list.Items[i].GetName()] = countsAsAvailable(&list.Items[i])
	}
	b.count(machines)
	events, err := watcher.Watch(ctx, list, client.InNamespace("default"), &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()},
	})
	if err != nil {
		return
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		m, ok := e.Object.(*unstructured.Unstructured)
		if !ok || m.GetKind() != fake.MachineGVK().Kind {
			return // an error, or the end
		}
		if machines[m.GetName()] = countsAsAvailable(m); e.Type == watch.Deleted {
			delete(machines, m.GetName())
		}
		b.count(machines)
	}
}

func (b *bounds) count(machines map[string]bool) {
	n := 0
	for _, is := range machines {
		if is {
			n++
		}
	}
	b.mu.Lock()
	b.most, b.least = max(b.most, len(machines)), min(b.least, n)
	b.mu.Unlock()
}

func countsAsAvailable(m *unstructured.Unstructured) bool {
	c, found, err := contract.ConditionsAt("status", "conditions").Find(m.Object, "Available")
	return err == nil && found && c.Status == "True" && m.GetDeletionTimestamp() == nil
}

// rolledOut waits until all Machines have a size, and the deployment says that it is done.
func (w *world) rolledOut(kubeconfig, binary, name, size string, n int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d Machines of %s", n, size), func() string {
		sizes := map[string]int{}
		for _, infra := range w.listed(fake.InfraMachineGVK(contract.V1Beta2)) {
			text, _, _ := unstructured.NestedString(infra.Object, "spec", "size")
			sizes[text]++
		}
		out, err := exec.CommandContext(w.t.Context(), binary, "rollout", "status", name, "--kubeconfig", kubeconfig).CombinedOutput()
		if err != nil || len(sizes) != 1 || sizes[size] != n || !strings.Contains(string(out), "has been rolled out") {
			return fmt.Sprintf("%v, %s %v", sizes, out, err)
		}
		return ""
	})
	kind := fake.MachineGVK().GroupVersion().WithKind
	w.noFights(fake.MachineGVK(), kind("MachineSet"), kind("MachineDeployment"))
}

func TestADeploymentRollsAndGoesBackOnARealControlPlane(t *testing.T) {
	w := newSetWorld(t)
	w.startProviders(worldOptions{})
	binary, flags := managerBinary(t), []string{"--machinesets", "--machinedeployments"}
	m := w.managerWith(binary, managerAgent+"-deployments", flags...)
	t.Cleanup(func() {
		m.stop()
		if t.Failed() {
			t.Log(m.log.String())
		}
	})
	admin := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, cluster.WriteKubeconfig(admin, w.plane.Config()))
	objects := w.apply(deploymentDocument("fleet", 4))
	fleet := objects[2]
	w.rolledOut(admin, binary, "fleet", "blue", 4)

	seen, stop := w.watchBounds()
	next := w.get(fleet)
	base := next.DeepCopy()
	require.NoError(t, unstructured.SetNestedField(next.Object, "fleet-green", "spec", "template", "spec", "infrastructureRef", "name"))
	require.NoError(t, w.client.Patch(t.Context(), next, client.MergeFrom(base)))
	w.eventually("a new Machine", func() string {
		if n := len(w.listed(fake.MachineGVK())); n < 5 {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	})
	m.kill() // half way
	m = w.managerWith(binary, managerAgent+"-deployments", flags...)
	w.rolledOut(admin, binary, "fleet", "green", 4)
	out, err := exec.CommandContext(t.Context(), binary, "rollout", "undo", "fleet", "--kubeconfig", admin).CombinedOutput()
	require.NoError(t, err, string(out))
	w.rolledOut(admin, binary, "fleet", "blue", 4)
	stop()
	require.LessOrEqual(t, seen.most, 5, "maxSurge is 1")
	require.GreaterOrEqual(t, seen.least, 4, "maxUnavailable is 0")

	require.NoError(t, w.client.Delete(t.Context(), fleet))
	w.gone(fleet)
	w.nothingLeft()
	require.NoError(t, w.client.Delete(t.Context(), objects[0]))
	require.NoError(t, w.client.Delete(t.Context(), objects[1]))
}
