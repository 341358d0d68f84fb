//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/machineset/scale"
	workloads "github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// farPools are pools of the shared control plane whose Nodes are behind another API server. Its connections come from the Secret that the
// page on the MachinePool controller names, by workload.Setup and NodesOf.
type farPools struct {
	*fleet
	pool *unstructured.Unstructured
}

// poolCluster is the cluster of the pool. Its kubeconfig is in the Secret <cluster-name>-kubeconfig.
const poolCluster = "far-pools"

func newFarPools(t *testing.T) *farPools {
	t.Helper()
	f := &farPools{fleet: &fleet{far: newFar(t)}}
	crds, err := cluster.ClusterAPICRDs(t.Context(), "v1beta2", "MachinePool", "Machine")
	require.NoError(t, err)
	crds = append(crds, fake.CRD(fake.InfraMachinePoolGVK(contract.V1Beta2), contract.V1Beta2),
		fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
	require.NoError(t, cluster.InstallCRDs(t.Context(), f.plane.Config(), crds...))
	providers := f.manager()
	infrastructure := fake.PoolInfrastructure{NoNode: true, Name: poolCluster + "-infrastructure"}
	require.NoError(t, infrastructure.SetupWithManager(providers))
	bootstrap := fake.Bootstrap{ProviderOptions: fake.ProviderOptions{Machine: fake.MachinePoolGVK(), Name: poolCluster + "-bootstrap"}}
	require.NoError(t, bootstrap.SetupWithManager(providers))
	f.run(providers)
	f.startPools()
	return f
}

func (f *farPools) manager() ctrl.Manager {
	f.t.Helper()
	mgr, err := ctrl.NewManager(f.plane.Config(), ctrl.Options{
		Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)}, // kubernetes-sigs/controller-runtime#3538
	})
	require.NoError(f.t, err)
	return mgr
}

func (f *farPools) run(mgr ctrl.Manager) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context())) // ends in Cleanup, behind the test's own context
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		require.NoError(f.t, <-done)
	})
}

func (f *farPools) startPools() {
	f.t.Helper()
	mgr := f.manager()
	secrets, err := workloads.SecretsFromManager(mgr)
	require.NoError(f.t, err)
	clusters, err := workloads.New(workloads.Options[workloads.Workload]{
		Access: secrets, UserAgent: "machinist-far-pools", Setup: workloads.WorkloadOptions{}.Setup(),
	})
	require.NoError(f.t, err)
	require.NoError(f.t, mgr.Add(clusters))
	kinds, err := machinepool.ClusterAPI(contract.V1Beta2)
	require.NoError(f.t, err)
	r, err := machinepool.New(kinds, machinepool.Ports{
		Ports:   pass.PortsFromManager(mgr),
		NodesOf: workloads.NodesOf(clusters), WorkloadEvents: clusters.Source,
	}, machinepool.Options{Options: pass.Options{Name: poolCluster, StatusDelay: -1}})
	require.NoError(f.t, err)
	require.NoError(f.t, r.AddToManager(f.t.Context(), mgr))
	f.run(mgr)
}

// create makes a pool with what it refers to, and waits until its instances are known. It returns their IDs.
func (f *farPools) create(replicas int64) (ids []string) {
	f.t.Helper()
	const name = "far-pool"
	f.pool = fake.MachinePool(name, replicas, fake.WithField(poolCluster, "spec", "clusterName"),
		fake.WithField(poolCluster, "spec", "template", "spec", "clusterName"))
	for _, obj := range []client.Object{fake.BootstrapConfig(contract.V1Beta2, name), fake.InfraMachinePool(contract.V1Beta2, name), f.pool} {
		require.NoError(f.t, f.client.Create(f.t.Context(), obj))
	}
	f.eventually("provider IDs", func() string {
		ids, _, _ = unstructured.NestedStringSlice(f.get(f.pool).Object, "spec", "providerIDList")
		if int64(len(ids)) != replicas {
			return describe(f.get(f.pool))
		}
		return ""
	})
	return ids
}

// connects writes the kubeconfig Secret of the cluster.
func (f *farPools) connects() {
	f.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: poolCluster + "-kubeconfig", Labels: map[string]string{contract.ClusterNameLabel: poolCluster},
		},
		Type: "cluster.x-k8s.io/secret", Data: f.kubeconfig("far-pools"),
	}
	require.NoError(f.t, f.client.Create(f.t.Context(), secret))
	f.t.Cleanup(func() { _ = f.client.Delete(context.WithoutCancel(f.t.Context()), secret) })
}

func (f *farPools) hasReady(n int64) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d ready replicas", n), func() string {
		got, found, _ := unstructured.NestedInt64(f.get(f.pool).Object, "status", "readyReplicas")
		if !found || got != n {
			return fmt.Sprintf("it has %d: %s", got, describe(f.get(f.pool)))
		}
		return ""
	})
}

// node reads a Node of the workload cluster until check says nothing any more.
func (f *farPools) node(name string, check func(*corev1.Node) string) {
	f.t.Helper()
	f.eventually("Node "+name, func() string {
		var node corev1.Node
		require.NoError(f.t, f.nodes.Get(f.t.Context(), clientKey("", name), &node))
		return check(&node)
	})
}

func TestAPoolHasItsNodesInAWorkloadClusterOnRealControlPlanes(t *testing.T) {
	f := newFarPools(t)
	ids := f.create(2)
	f.conditionSays(f.pool, contract.ConditionMachinesReady, contract.ReasonConnectionDown, poolCluster)
	f.connects()
	for i, id := range ids {
		f.joinsFar(fmt.Sprintf("far-%d", i), id)
	}
	f.joinsFar("stranger", "fake://of-no-pool")
	f.hasReady(2)
	f.node("far-0", func(node *corev1.Node) string {
		if node.Annotations[propagate.OwnerNameAnnotation] != f.pool.GetName() {
			return fmt.Sprintf("annotations %v", node.Annotations)
		}
		return ""
	})

	// Its events wake the pool.
	var node corev1.Node
	require.NoError(t, f.nodes.Get(t.Context(), clientKey("", "far-1"), &node))
	silent := node.DeepCopy()
	silent.Status.Conditions[0].Status = corev1.ConditionUnknown
	require.NoError(t, f.nodes.Status().Patch(t.Context(), silent, client.MergeFrom(&node)))
	f.hasReady(1)

	// It is drained there.
	leave := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+scale.DeleteAnnotation+`":""}}}`))
	require.NoError(t, f.nodes.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "far-0"}}, leave))
	f.node("far-0", func(node *corev1.Node) string {
		if !node.Spec.Unschedulable || node.Annotations[contract.DrainedAnnotation] != string(node.UID) {
			return fmt.Sprintf("unschedulable %v, annotations %v", node.Spec.Unschedulable, node.Annotations)
		}
		return ""
	})

	// And its Nodes go with the pool, no other.
	require.NoError(t, f.client.Delete(t.Context(), f.pool))
	f.gone(f.pool, fake.InfraMachinePool(contract.V1Beta2, "far-pool"), fake.BootstrapConfig(contract.V1Beta2, "far-pool"))
	var left corev1.NodeList
	require.NoError(t, f.nodes.List(t.Context(), &left))
	require.Len(t, left.Items, 1)
	require.Equal(t, "stranger", left.Items[0].Name)
}
