package machinepool_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
)

func TestNewReportsAllErrors(t *testing.T) {
	t.Parallel()
	_, err := machinepool.New(machinepool.Kinds{}, machinepool.Ports{}, machinepool.Options{})
	for _, want := range []string{"the contract.Kind needs", "Ports.Client", "Ports.Cache", "Ports.APIReader",
		"neither Ports.Workload.Nodes nor Ports.NodesOf"} {
		require.ErrorContains(t, err, want)
	}
	_, err = machinepool.New(machinepool.Kinds{}, machinepool.Ports{}, machinepool.Options{
		Options: pass.Options{ContractVersions: []contract.Version{"v1beta9"}},
	})
	require.ErrorIs(t, err, contract.ErrUnknownVersion)
	_, err = machinepool.ClusterAPI(contract.V1Alpha3)
	require.ErrorIs(t, err, contract.ErrUnknownVersion)
}

func TestAKindThatForgetsWhatAPoolRestsOnIsRefused(t *testing.T) {
	t.Parallel()
	kinds, err := machinepool.ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	layout := *contract.LayoutsOf(contract.V1Beta2).MachinePool
	layout.Nodes = contract.Field[[]contract.NodeRef]{}
	kinds.Pool = contract.Unstructured(kinds.Pool.GVK, &layout)
	_, err = machinepool.New(kinds, machinepool.Ports{}, machinepool.Options{})
	require.ErrorContains(t, err, "Nodes is not stored, so the Nodes of instances that are gone are neither drained nor deleted")
}

func TestRightsForPoolsAreThoseOfTheirKinds(t *testing.T) {
	t.Parallel()
	kinds, err := machinepool.ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	const group = "cluster.x-k8s.io"
	rights := func(w machinepool.Wiring) map[string][]string {
		all := map[string][]string{}
		for _, rule := range machinepool.PolicyRules(w) {
			for _, resource := range rule.Resources {
				all[resource+"."+rule.APIGroups[0]] = append(all[resource+"."+rule.APIGroups[0]], rule.Verbs...)
			}
		}
		for _, verbs := range all {
			slices.Sort(verbs)
		}
		return all
	}
	require.Equal(t, map[string][]string{
		"machinepools." + group: {"list", "patch", "watch"}, "machinepools/status." + group: {"patch"},
		"machines." + group: {"create", "delete", "get", "list", "patch", "watch"},
	}, rights(machinepool.Wiring{Kinds: kinds}))
	kinds.Pool.StatusSubresource, kinds.Machine, kinds.NewMachine = false, contract.Kind{}, nil
	require.Equal(t, map[string][]string{"machinepools." + group: {"list", "patch", "watch"}},
		rights(machinepool.Wiring{Kinds: kinds}))
}

func TestPoolsOfTheOlderAPIVersionAndProvidersOfTheOlderContract(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{version: contract.V1Beta1})
	infra, config := fake.InfraMachinePoolGVK(contract.V1Beta1), fake.BootstrapConfigGVK(contract.V1Beta1)
	w.create(fake.CRD(infra, contract.V1Beta1), fake.CRD(config, contract.V1Beta1))
	old := func(kind, apiVersion string) map[string]any {
		return map[string]any{"kind": kind, "apiVersion": apiVersion, "name": "pool", "namespace": "default"}
	}
	pool := fake.MachinePool("pool", 2,
		fake.WithField("cluster.x-k8s.io/v1beta1", "apiVersion"),
		fake.WithField(old(infra.Kind, infra.GroupVersion().String()), "spec", "template", "spec", "infrastructureRef"),
		fake.WithField(old(config.Kind, config.GroupVersion().String()), "spec", "template", "spec", "bootstrap", "configRef"))
	bootstrap, group := fake.BootstrapConfig(contract.V1Beta1, "pool"), fake.InfraMachinePool(contract.V1Beta1, "pool")
	w.create(bootstrap, group, pool, fake.Node("a", "p://a"), fake.Node("b", "p://b"))
	w.change(bootstrap, func(u *unstructured.Unstructured) {
		set(true, "status", "ready")(u)
		set("data", "status", "dataSecretName")(u)
	})
	w.change(group, func(u *unstructured.Unstructured) {
		set([]any{"p://b", "p://a", "p://b"}, "spec", "providerIDList")(u)
		set(true, "status", "ready")(u)
		set(int64(2), "status", "replicas")(u)
	})
	w.eventually("Running", func() string {
		fresh := w.get(pool)
		phase, _, _ := unstructured.NestedString(fresh.Object, "status", "phase")
		ready, _, _ := unstructured.NestedInt64(fresh.Object, "status", "readyReplicas")
		provisioned, _, _ := unstructured.NestedBool(fresh.Object, "status", "infrastructureReady")
		name, _, _ := unstructured.NestedString(fresh.Object, "spec", "template", "spec", "bootstrap", "dataSecretName")
		if phase != "Running" || ready != 2 || !provisioned || name != "data" {
			return describe(fresh)
		}
		return ""
	})
}
