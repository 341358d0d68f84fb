//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/published"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// otherSystem is a system with kinds of its own: where its CRDs are, and what a Machine of it is made of.
type otherSystem struct {
	module, crds string
	kinds        contract.Kinds
	cluster      string // the member that names the Cluster, with a comma
	spec         string // the template's
	change       string // what a rollout changes in it
}

func otherSystems() map[string]otherSystem {
	return map[string]otherSystem{
		"Kubermatic": {
			"k8c.io/machine-controller@v1.60.0", "examples/machine-controller.yaml", contract.Kubermatic(), "",
			`{"providerSpec":{"value":{"cloudProvider":"aws"}},"versions":{"kubelet":"1.36.3"}}`, `{"versions":{"kubelet":"1.37.0"}}`,
		},
		"Gardener": {
			"github.com/gardener/machine-controller-manager@v0.60.0", "kubernetes/crds/*.yaml", contract.Gardener(), "",
			`{"class":{"kind":"MachineClass","name":"small"}}`, `{"class":{"name":"large"}}`,
		},
	}
}

// TestE2EDeploymentsOfOtherSystemsRollOutAndGoBack has the CRDs of those systems judge what the reconcilers write.
func TestE2EDeploymentsOfOtherSystemsRollOutAndGoBack(t *testing.T) {
	for name, s := range otherSystems() {
		t.Run(name, func(t *testing.T) {
			all, err := published.CRDs(t.Context(), s.module, s.crds)
			require.NoError(t, err)
			newBareWorld(t, shared(t)).rollsAndGoesBack(s, all["Machine"], all["MachineSet"], all["MachineDeployment"])
		})
	}
}

// TestE2EDeploymentsOfClusterAPIV1Beta1RollOutAndGoBack has a control plane of its own, because others store v1beta2.
func TestE2EDeploymentsOfClusterAPIV1Beta1RollOutAndGoBack(t *testing.T) {
	plane, err := cluster.Start(t.Context(), cluster.Options{Log: os.Stderr})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	live, err := client.NewWithWatch(plane.Config(), client.Options{})
	require.NoError(t, err)
	kinds, err := contract.ClusterAPI(contract.V1Beta1)
	require.NoError(t, err)
	crds, err := cluster.ClusterAPICRDs(t.Context(), "v1beta1", "Machine", "MachineSet", "MachineDeployment")
	require.NoError(t, err)
	(&world{t: t, plane: plane, client: live}).rollsAndGoesBack(otherSystem{
		kinds: kinds, cluster: `"clusterName":"demo",`, change: `{"version":"v1.37.0"}`,
		spec: `{"clusterName":"demo","version":"v1.36.3","bootstrap":{"dataSecretName":"data"},"infrastructureRef":{}}`,
	}, crds...)
}

// rollsAndGoesBack creates a deployment, changes its template, undoes that, and deletes it.
func (w *world) rollsAndGoesBack(s otherSystem, crds ...*unstructured.Unstructured) {
	w.t.Helper()
	ctx := w.t.Context()
	require.NoError(w.t, cluster.InstallCRDs(ctx, w.plane.Config(), crds...))
	w.startOther(s)
	d := &unstructured.Unstructured{}
	require.NoError(w.t, d.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":%q,"kind":"MachineDeployment",
		"metadata":{"name":"workers","namespace":"default"},"spec":{%s"replicas":3,"selector":{"matchLabels":{"pool":"workers"}},
		"template":{"metadata":{"labels":{"pool":"workers"}},"spec":%s}}}`, s.kinds.Deployment.GVK.GroupVersion(), s.cluster, s.spec)))
	require.NoError(w.t, w.client.Create(ctx, d))
	w.rolledTo(s, d, "1")
	change := fmt.Appendf(nil, `{"spec":{"template":{"spec":%s}}}`, s.change)
	require.NoError(w.t, w.client.Patch(ctx, d.DeepCopy(), client.RawPatch(types.MergePatchType, change)))
	w.rolledTo(s, d, "2")
	commands := deployment.Commands{Client: w.client, Kinds: s.kinds}
	_, err := commands.Undo(ctx, client.ObjectKeyFromObject(d), 0)
	require.NoError(w.t, err)
	w.rolledTo(s, d, "3")
	require.NoError(w.t, w.client.Delete(ctx, d))
	w.gone(d)
	require.Empty(w.t, w.listed(s.kinds.Set.GVK))
	require.Empty(w.t, w.listed(s.kinds.Machine.GVK))
}

// startOther runs the reconcilers of sets and deployments in this process, with a stand-in for that of Machines.
func (w *world) startOther(s otherSystem) {
	w.t.Helper()
	cached := ctrl.Options{Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}}}
	w.inProcess(w.plane.Config(), cached, func(ctx context.Context, mgr ctrl.Manager) error {
		_, sets := machineset.SetupWithManager(ctx, mgr, s.kinds, machineset.Options{})
		_, deployments := deployment.SetupWithManager(ctx, mgr, s.kinds, deployment.Options{})
		return errors.Join(fake.NewMachines(mgr.GetClient(), s.kinds.Machine).SetupWithManager(mgr), sets, deployments)
	})
}

// rolledTo waits until a deployment says that its three Machines are those of a revision, and available.
func (w *world) rolledTo(s otherSystem, d *unstructured.Unstructured, revision string) {
	w.t.Helper()
	commands := deployment.Commands{Client: w.client, Kinds: s.kinds}
	w.eventually("revision "+revision, func() string {
		status, err := commands.Status(w.t.Context(), client.ObjectKeyFromObject(d))
		has := w.get(d).GetAnnotations()["machinedeployment.clusters.x-k8s.io/revision"]
		if machines := len(w.listed(s.kinds.Machine.GVK)); err != nil || !status.Done || has != revision || machines != 3 {
			return fmt.Sprintf("%+v, %d Machines, revision %q, %v", status, machines, has, err)
		}
		return ""
	})
}
