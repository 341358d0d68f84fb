//go:build e2e

package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const (
	// rolling is how many Machines the deployment has, rollingSurge how many more there may be.
	rolling, rollingSurge = 100, 10
	// outage is for how long the API server is away.
	outage = 20 * time.Second
	// rolloutLimit is more than a rollout takes on a busy machine.
	rolloutLimit = 10 * time.Minute
)

// rollingWorld is a deployment whose Machines have bootstrap data and Nodes, with a pod on each and a budget for those.
type rollingWorld struct {
	*world

	binary string
	flags  []string
	m      *managerProcess
	fleet  *unstructured.Unstructured
	start  time.Time
}

func newRollingWorld(t *testing.T) *rollingWorld {
	t.Helper()
	plane, err := cluster.Start(t.Context(), cluster.Options{Log: os.Stderr}) // its own: its API server is killed
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	w := &rollingWorld{world: newSetWorldOn(t, plane), binary: managerBinary(t), flags: []string{"--machinesets", "--machinedeployments"}}
	w.startProviders(worldOptions{})
	w.m = w.managerWith(w.binary, managerAgent+"-deployments", w.flags...)
	t.Cleanup(func() {
		w.m.stop()
		if t.Failed() {
			fmt.Fprintln(os.Stderr, w.m.log.String())
		}
	})
	document := strings.ReplaceAll(setDocument("fleet", rolling), "kind: MachineSet", "kind: MachineDeployment")
	w.fleet = w.apply(document)[2]
	w.patch(fmt.Sprintf(`{"spec":{"rollout":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"%d%%","maxUnavailable":0}}}}}`,
		100*rollingSurge/rolling))
	w.start = time.Now()
	return w
}

func (w *rollingWorld) patch(text string) {
	w.t.Helper()
	require.NoError(w.t, w.client.Patch(w.t.Context(), w.fleet.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text))))
}

// goTo asks for a version of the Machines.
func (w *rollingWorld) goTo(version string) {
	w.t.Helper()
	w.patch(fmt.Sprintf(`{"spec":{"template":{"spec":{"version":%q}}}}`, version))
}

// versions counts the Machines by their versions.
func (w *rollingWorld) versions() map[string]int {
	w.t.Helper()
	all := map[string]int{}
	for _, m := range w.listed(fake.MachineGVK()) {
		version, _, _ := unstructured.NestedString(m.Object, "spec", "version")
		all[version]++
	}
	return all
}

// has waits until there are at least so many Machines of a version.
func (w *rollingWorld) has(version string, n int) {
	w.t.Helper()
	w.within(rolloutLimit, fmt.Sprintf("%d Machines of %s", n, version), func() string {
		if all := w.versions(); all[version] < n {
			return fmt.Sprint(all)
		}
		return ""
	})
}

// done waits until the rollout is over, as the status says, and nothing is left of earlier Machines.
func (w *rollingWorld) done(version string) {
	w.t.Helper()
	w.within(rolloutLimit, "the rollout to "+version, func() string {
		fresh := w.get(w.fleet)
		c, _, err := contract.ConditionsAt("status", "conditions").Find(fresh.Object, "RollingOut")
		if all := w.versions(); err != nil || c.Status != "False" || !maps.Equal(all, map[string]int{version: rolling}) {
			return fmt.Sprintf("%v, RollingOut=%s %s %v", all, c.Status, c.Message, err)
		}
		return w.leftOver()
	})
	w.t.Logf("%s is rolled out after %s", version, time.Since(w.start).Round(time.Second))
}

// leftOver says of what there are not as many as Machines: what Machines are made of, Nodes and Secrets.
func (w *rollingWorld) leftOver() string {
	w.t.Helper()
	for _, gvk := range []schema.GroupVersionKind{
		fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2), {Version: "v1", Kind: "Node"},
		{Version: "v1", Kind: "Secret"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		require.NoError(w.t, w.client.List(w.t.Context(), list))
		n := 0
		for i := range list.Items {
			// A set leaves what it has made for a Machine that it gave up, which nothing controls.
			counts := gvk.Group == "" || metav1.GetControllerOf(&list.Items[i]) != nil
			if counts && strings.HasPrefix(list.Items[i].GetName(), "fleet-") {
				n++
			}
		}
		if n != rolling {
			return fmt.Sprintf("there are %d %s objects", n, gvk.Kind)
		}
	}
	return ""
}

// guard runs a pod for each Machine, and lets a tenth of them be away.
func (w *rollingWorld) guard() {
	w.t.Helper()
	labels := map[string]string{"app": "guarded"}
	selector, meta := &metav1.LabelSelector{MatchLabels: labels}, metav1.ObjectMeta{Namespace: "default", Name: "guarded"}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: new(intstr.FromInt32(rolling / 10)), Selector: selector,
	}}
	workload := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(rolling)), Selector: selector,
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}},
		}},
	}}
	require.NoError(w.t, w.client.Create(w.t.Context(), budget))
	require.NoError(w.t, w.client.Create(w.t.Context(), workload))
	w.eventually("the pods to run", func() string {
		var have policyv1.PodDisruptionBudget
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKeyFromObject(budget), &have))
		if have.Status.CurrentHealthy < rolling {
			return fmt.Sprintf("%d of %d", have.Status.CurrentHealthy, rolling)
		}
		return ""
	})
}

// A hundred Machines roll behind a budget while the manager is killed three times; the next rollout is turned back half way; and the API
// server is away in the middle of a third.
func TestE2EARolloutKeepsItsBoundsWhateverHappensToItsManagerAndItsAPIServer(t *testing.T) {
	w := newRollingWorld(t)
	w.done("v1.36.3")
	w.guard()
	seen, stop := w.watchBounds()
	w.goTo("v1.37.0")
	for _, n := range []int{20, 50, 80} {
		w.has("v1.37.0", n)
		w.m.kill()
		w.m = w.managerWith(w.binary, managerAgent+"-deployments", w.flags...)
	}
	w.done("v1.37.0")

	w.goTo("v1.38.0")
	w.has("v1.38.0", rolling/2)
	admin := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, cluster.WriteKubeconfig(admin, w.plane.Config()))
	out, err := exec.CommandContext(t.Context(), w.binary, "rollout", "undo", "fleet", "--kubeconfig", admin).CombinedOutput()
	require.NoError(t, err, string(out))
	w.done("v1.37.0")

	w.goTo("v1.39.0")
	w.has("v1.39.0", rolling/2)
	// With the API server go those that would count Nodes as lost: kwok never says again that their pods are ready, as a kubelet does.
	away := []cluster.Component{cluster.APIServer, cluster.ControllerManager, cluster.Kwok}
	for _, c := range away {
		require.NoError(t, w.plane.Kill(c))
	}
	select {
	case <-time.After(outage):
	case <-t.Context().Done():
	}
	for _, c := range away {
		require.NoError(t, w.plane.Restart(t.Context(), c))
	}
	w.done("v1.39.0")
	stop()
	t.Logf("at most %d Machines, and at least %d available", seen.most, seen.least)
	require.LessOrEqual(t, seen.most, rolling+rollingSurge)
	require.GreaterOrEqual(t, seen.least, rolling, "maxUnavailable is 0")
}
