//go:build e2e

package e2e_test

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/progress"
)

// rollingOutIs waits until the condition RollingOut of a deployment has a status, and the status is that of its generation.
func (w *world) rollingOutIs(d *unstructured.Unstructured, status metav1.ConditionStatus) {
	w.t.Helper()
	w.eventually("RollingOut to be "+string(status), func() string {
		fresh := w.get(d)
		seen, _, _ := unstructured.NestedInt64(fresh.Object, "status", "observedGeneration")
		available, _, _ := contract.ConditionsAt("status", "conditions").Find(fresh.Object, "Available")
		c, _, err := contract.ConditionsAt("status", "conditions").Find(fresh.Object, "RollingOut")
		if err != nil || seen < fresh.GetGeneration() || c.Status != status || available.Status != metav1.ConditionTrue {
			return describe(fresh)
		}
		return ""
	})
}

// saidAll waits until the status of a deployment counts replicas, and nothing writes it any more.
func (w *world) saidAll(d *unstructured.Unstructured, replicas int64) {
	w.t.Helper()
	var version string
	var since time.Time
	w.eventually("the status to be whole", func() string {
		fresh := w.get(d)
		if fresh.GetResourceVersion() != version {
			version, since = fresh.GetResourceVersion(), time.Now()
		}
		counted, _, _ := unstructured.NestedInt64(fresh.Object, "status", "replicas")
		if counted != replicas || time.Since(since) < 5*time.Second {
			return describe(fresh)
		}
		return ""
	})
}

// TestE2EClusterctlDescribesOurRolloutsAsItDescribesThoseOfClusterAPI has our manager take a MachineDeployment over from Cluster API's in the
// middle of a rollout, which a provider holds up, and finish it: clusterctl must show the same conditions, with the same status and reason,
// during the rollout and after it.
func TestE2EClusterctlDescribesOurRolloutsAsItDescribesThoseOfClusterAPI(t *testing.T) {
	printf := progress.New(os.Stderr, "describe")
	program, err := arm.BuildCAPI(t.Context(), printf)
	require.NoError(t, err)
	clusterctl, err := arm.BuildClusterctl(t.Context(), printf)
	require.NoError(t, err)
	plane, err := cluster.Start(t.Context(), cluster.Options{Log: os.Stderr}) // its own: no other test can have a second manager
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	w := newBareWorld(t, plane)
	require.NoError(t, (&arm.Objects{Client: w.client, Plane: plane, Cluster: describedCluster}).Install(t.Context()))
	var held atomic.Bool
	delay := func(*unstructured.Unstructured) time.Duration {
		if held.Load() {
			return time.Hour // it looks again when the Machine changes
		}
		return 0
	}
	w.startProviders(worldOptions{infrastructure: fake.Infrastructure{ProviderOptions: fake.ProviderOptions{Delay: delay}}})
	shown := func() map[string]string {
		return described(t, clusterctl, plane.Kubeconfig(), "MachineDeployment/"+describedCluster)
	}

	theirs, err := arm.StartCAPI(program, plane)
	require.NoError(t, err)
	t.Cleanup(theirs.Stop)
	infra, config := template(fake.InfraMachineGVK(contract.V1Beta2)), template(fake.BootstrapConfigGVK(contract.V1Beta2))
	require.NoError(t, cluster.InstallCRDs(t.Context(), plane.Config(), fake.CRD(infra, contract.V1Beta2), fake.CRD(config, contract.V1Beta2)))
	d := w.apply(deploymentOf(infra, config))[2]
	w.rollingOutIs(d, metav1.ConditionFalse)
	after := shown()
	held.Store(true)
	change := func(text string) {
		require.NoError(t, w.client.Patch(t.Context(), d.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text))))
	}
	// Another version would leave Machines that are not up to date: the Nodes of kwok have its own.
	change(`{"spec":{"template":{"spec":{"failureDomain":"b"}}}}`)
	w.rollingOutIs(d, metav1.ConditionTrue)
	w.saidAll(d, 2)
	during := shown()
	theirs.Stop()

	w.startManager([]string{"--machinesets", "--machinedeployments"})
	change(`{"spec":{"template":{"spec":{"deletion":{"nodeDrainTimeoutSeconds":60}}}}}`) // a generation that only our manager has seen
	w.rollingOutIs(d, metav1.ConditionTrue)
	w.eventually("clusterctl to describe both alike during a rollout", func() string { return cmp.Diff(during, shown()) })
	held.Store(false)
	for _, m := range w.listed(fake.MachineGVK()) {
		poke := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"poked":"yes"}}}`))
		require.NoError(t, w.client.Patch(t.Context(), &m, poke))
	}
	w.rollingOutIs(d, metav1.ConditionFalse)
	w.eventually("clusterctl to describe both alike after a rollout", func() string { return cmp.Diff(after, shown()) })
}
