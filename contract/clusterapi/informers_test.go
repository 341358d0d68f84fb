package clusterapi_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/remediation"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract/clusterapi"
)

func infraTemplate() schema.GroupVersionKind {
	gvk := fake.InfraMachineGVK(contract.V1Beta2)
	return gvk.GroupVersion().WithKind(gvk.Kind + contract.TemplateSuffix)
}

// goTypes are what an operator of Cluster API reads, by the names of their kinds.
func goTypes() map[string]client.Object {
	return map[string]client.Object{"Machine": &clusterv1.Machine{}, "MachineSet": &clusterv1.MachineSet{},
		"MachineDeployment": &clusterv1.MachineDeployment{}, "MachinePool": &clusterv1.MachinePool{},
		"MachineHealthCheck": &clusterv1.MachineHealthCheck{}}
}

// startOperator starts a manager whose own controllers read Cluster API's types, and all reconcilers of this module in it.
func startOperator(t *testing.T, env *testenv.Env) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), clusterapi.AddToScheme(scheme)))
	mgr := env.Manager("operator", ctrl.Options{Scheme: scheme})
	for _, obj := range goTypes() {
		_, err := mgr.GetCache().GetInformer(t.Context(), obj)
		require.NoError(t, err)
	}
	clusters, err := pass.ClustersFromManager(mgr, pass.ClusterOptions{})
	require.NoError(t, err)
	machines, err := machine.PortsFromManager(t.Context(), mgr, machine.Options{})
	require.NoError(t, err)
	machines.ClusterOf, machines.ClusterEvents = clusters.Of, clusters.Source
	one, err := machine.New(clusterapi.Machine(), machines, machine.Options{Options: pass.Options{StatusDelay: -1}})
	require.NoError(t, err)
	sets, err := machineset.New(clusterapi.Kinds(), machines.Ports, machineset.Options{
		Options: pass.Options{StatusDelay: -1},
	})
	require.NoError(t, err)
	deployments, err := deployment.New(clusterapi.Kinds(), machines.Ports,
		deployment.Options{Options: pass.Options{StatusDelay: -1}})
	require.NoError(t, err)
	pools, err := machinepool.New(clusterapi.MachinePools(), machinepool.Ports{Ports: machines.Ports, Workload: machines.Workload},
		machinepool.Options{Options: pass.Options{StatusDelay: -1}})
	require.NoError(t, err)
	checks, err := remediation.New(clusterapi.Kinds(),
		remediation.Ports{Ports: machines.Ports, Workload: machines.Workload}, remediation.Options{Options: pass.Options{StatusDelay: -1}})
	require.NoError(t, err)
	require.NoError(t, errors.Join(one.AddToManager(t.Context(), mgr), sets.AddToManager(t.Context(), mgr),
		deployments.AddToManager(t.Context(), mgr), pools.AddToManager(t.Context(), mgr), checks.AddToManager(t.Context(), mgr)))
	env.Run(mgr)
}

func startEnv(t *testing.T) *testenv.Env {
	t.Helper()
	options := fake.Options{Kinds: []fake.ServedKind{{GVK: fake.Cluster("").GetObjectKind().GroupVersionKind(), Status: true}}}
	for kind := range goTypes() {
		options.Kinds = append(options.Kinds, fake.ServedKind{GVK: clusterv1.GroupVersion.WithKind(kind), Status: true})
	}
	env := testenv.Start(t, options, fake.AllLoops(), func(e *testenv.Env) {
		template := testenv.Object(infraTemplate(), "blue")
		template.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
		e.Create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2), fake.CRD(infraTemplate(), contract.V1Beta2), template,
			fake.Cluster("demo"))
		status := []byte(`{"status":{"initialization":{"infrastructureProvisioned":true,"controlPlaneInitialized":true}}}`)
		require.NoError(t, e.Client.Status().Patch(t.Context(), fake.Cluster("demo"), client.RawPatch(types.MergePatchType, status)))
	})
	provider := env.Manager("provider", ctrl.Options{})
	require.NoError(t, (&fake.Infrastructure{}).SetupWithManager(provider))
	env.Run(provider)
	return env
}

func TestAnOperatorWithTypedInformersHasNoOther(t *testing.T) {
	env := startEnv(t)
	startOperator(t, env)
	of := func(kind string) *unstructured.Unstructured {
		return testenv.Object(clusterv1.GroupVersion.WithKind(kind), "workers")
	}
	labels := map[string]any{"pool": "workers"}
	template := map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
		"clusterName": "demo", "version": "v1.36.3", "bootstrap": map[string]any{"dataSecretName": "data"},
		"infrastructureRef": map[string]any{"apiGroup": infraTemplate().Group, "kind": infraTemplate().Kind, "name": "blue"},
		"deletion":          map[string]any{"nodeDrainTimeoutSeconds": int64(60)},
	}}
	workers, pool, check := of("MachineDeployment"), of("MachinePool"), of("MachineHealthCheck")
	selector := map[string]any{"matchLabels": labels}
	workers.Object["spec"] = map[string]any{"clusterName": "demo", "replicas": int64(3), "selector": selector, "template": template}
	pool.Object["spec"] = map[string]any{"clusterName": "demo", "replicas": int64(0), "template": template}
	check.Object["spec"] = map[string]any{"clusterName": "demo", "selector": selector, "checks": map[string]any{
		"nodeStartupTimeoutSeconds": int64(600),
		"unhealthyNodeConditions":   []any{map[string]any{"type": "Ready", "status": "Unknown", "timeoutSeconds": int64(300)}},
	}}
	env.Create(workers, pool, check)

	running := func(want int) func() string {
		return func() string {
			all := env.List(fake.MachineGVK())
			if len(all) != want {
				return fmt.Sprintf("%d Machines", len(all))
			}
			for i := range all {
				if phase, _, _ := unstructured.NestedString(all[i].Object, "status", "phase"); phase != "Running" {
					return testenv.Describe(&all[i])
				}
			}
			return ""
		}
	}
	env.Eventually("three Machines run", running(3))
	env.Eventually("the check counts them", func() string {
		healthy, _, _ := unstructured.NestedInt64(env.Get(check).Object, "status", "currentHealthy")
		return map[bool]string{false: fmt.Sprint(env.Get(check).Object["status"])}[healthy == 3]
	})
	env.Change(workers, func(u *unstructured.Unstructured) { u.Object["spec"].(map[string]any)["replicas"] = int64(1) })
	env.Eventually("one Machine is left", running(1))
	env.Change(workers, func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(u.Object, int64(90), "spec", "template", "spec", "deletion", "nodeDrainTimeoutSeconds"))
	})
	env.Eventually("the Machine follows in place", func() string {
		all := env.List(fake.MachineGVK())
		limit, _, _ := unstructured.NestedInt64(all[0].Object, "spec", "deletion", "nodeDrainTimeoutSeconds")
		return map[bool]string{false: fmt.Sprint(limit)}[limit == 90]
	})
	requireOneInformer(t, env)
	env.Quiet("operator", 300*time.Millisecond)
}

// requireOneInformer counts the lists and watches of all namespaces at the store: each informer of a cache begins with its own. The lists of
// one namespace are live reads, with which sets and deployments make sure of a cache that is behind.
func requireOneInformer(t *testing.T, env *testenv.Env) {
	t.Helper()
	watches := testenv.Count(env.Store.Requests(), func(r fake.Request) string {
		if r.UserAgent != "operator" || r.Verb != "watch" || r.GVK.Group != clusterv1.GroupVersion.Group {
			return ""
		}
		return r.GVK.Kind
	})
	want := map[string]int{"Cluster": 1} // as an unstructured object
	for kind := range goTypes() {
		want[kind] = 1
	}
	require.Equal(t, want, watches)
	lists := env.Store.CountRequests(func(r fake.Request) bool {
		return r.UserAgent == "operator" && r.Verb == "list" && r.Namespace == "" && want[r.GVK.Kind] > 0
	})
	require.LessOrEqual(t, lists, len(want))
}
