package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/describe"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/published"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
)

// foreignSystem is another system: where its CRDs are, what its users create besides Machines, and the spec of a Machine.
type foreignSystem struct{ module, crds, objects, spec string }

func foreignSystems() map[api.Group]foreignSystem {
	return map[api.Group]foreignSystem{
		api.Kubermatic: {
			module: "k8c.io/machine-controller@v1.60.0", crds: "examples/machine-controller.yaml",
			spec: `{versions: {kubelet: 1.36.3}, providerSpec: {value: {cloudProvider: kwok, cloudProviderSpec: {cpu: "2"}}}}`,
		},
		api.Gardener: {
			module: "github.com/gardener/machine-controller-manager@v0.60.0", crds: "kubernetes/crds/*.yaml",
			objects: `
apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineClass
metadata: {name: small, namespace: default}
provider: kwok
providerSpec: {cpu: "2"}
secretRef: {name: of-another-provider, namespace: default}
`,
			spec: `{class: {kind: MachineClass, name: small}}`,
		},
	}
}

// create creates objects from YAML documents.
func create(t *testing.T, c client.Client, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, document := range documents(text) {
		obj := &unstructured.Unstructured{}
		raw, err := yaml.YAMLToJSON([]byte(document))
		require.NoError(t, err)
		require.NoError(t, obj.UnmarshalJSON(raw))
		require.NoError(t, c.Create(t.Context(), obj))
		all = append(all, obj)
	}
	return all
}

// runForeign returns a store with the CRDs of a system, which prune what they do not know, and a manager with these flags at work.
func runForeign(t *testing.T, group api.Group, s foreignSystem, flags ...string) *fake.Store {
	t.Helper()
	crds, err := published.CRDs(t.Context(), s.module, s.crds)
	require.NoError(t, err)
	store := fake.NewStore(fake.Options{})
	for _, kind := range []string{"Machine", "MachineSet", "MachineDeployment", "MachineClass"} {
		if crds[kind] != nil {
			require.NoError(t, store.Client().Create(t.Context(), crds[kind]))
		}
	}
	create(t, store.Client(), s.objects)
	o := given(t, append(flags, "--api-group="+string(group), "--driver=kwok", "--driver-qps=1000", "--status-delay=0")...)
	for _, crd := range ownCRDs(o) {
		require.NoError(t, store.Client().Create(t.Context(), crd))
	}
	_, err = o.lookAtServer(store.RESTConfig())
	require.NoError(t, err)
	runMachines(t, store, storeManager(t, store, group), o)
	return store
}

// TestMachinesOfOtherSystemsRunOnNodesOfKwok creates a Machine and a MachineDeployment, looks at them where that system's kubectl columns
// look, and deletes them.
func TestMachinesOfOtherSystemsRunOnNodesOfKwok(t *testing.T) {
	t.Parallel()
	for group, s := range foreignSystems() {
		t.Run(string(group), func(t *testing.T) {
			t.Parallel()
			store := runForeign(t, group, s, "--machinesets", "--machinedeployments")
			made := create(t, store.Client(), fmt.Sprintf(`
apiVersion: %[1]s
kind: Machine
metadata: {name: vm1, namespace: default}
spec: %[2]s
---
apiVersion: %[1]s
kind: MachineDeployment
metadata: {name: workers, namespace: default}
spec: {replicas: 2, selector: {matchLabels: {pool: workers}}, template: {metadata: {labels: {pool: workers}}, spec: %[2]s}}
`, group.GroupVersion(), s.spec))
			eventually(t, "all Running on Nodes of their own", func(ctx context.Context) string { return runsThree(ctx, t, store, group) })
			isDescribed(t, store, group)
			findsOrphans(t, store, group)
			for _, obj := range made {
				require.NoError(t, store.Client().Delete(t.Context(), obj))
			}
			eventually(t, "nothing is left", func(ctx context.Context) string {
				var nodes corev1.NodeList
				require.NoError(t, store.Client().List(ctx, &nodes))
				left := listed(ctx, t, store, group)
				if err := store.Client().Get(ctx, client.ObjectKeyFromObject(made[1]), made[1]); !apierrors.IsNotFound(err) || len(left) > 0 {
					return fmt.Sprint(len(nodes.Items), " Nodes, ", len(left), " Machines, and the deployment: ", err, made[1].Object["status"])
				}
				return strings.Repeat("a Node ", len(nodes.Items))
			})
		})
	}
}

// TestMachinesOfOtherSystemsHaveHealthChecks deletes the Node of a Machine: the check finds it unhealthy, and its set replaces it.
func TestMachinesOfOtherSystemsHaveHealthChecks(t *testing.T) {
	t.Parallel()
	for group, s := range foreignSystems() {
		t.Run(string(group), func(t *testing.T) {
			t.Parallel()
			store := runForeign(t, group, s, "--machinesets", "--machinehealthchecks", "--join-cluster-timeout=25m", "--install-crds")
			create(t, store.Client(), fmt.Sprintf(`
apiVersion: %[1]s
kind: MachineSet
metadata: {name: workers, namespace: default}
spec: {replicas: 3, selector: {matchLabels: {pool: workers}}, template: {metadata: {labels: {pool: workers}}, spec: %[2]s}}
---
apiVersion: machinist.dev/v1beta2
kind: MachineHealthCheck
metadata: {name: workers, namespace: default}
spec: {selector: {matchLabels: {pool: workers}}}
`, group.GroupVersion(), s.spec))
			eventually(t, "all Running on Nodes of their own", func(ctx context.Context) string { return runsThree(ctx, t, store, group) })
			broken := listed(t.Context(), t, store, group)[0]
			name, _ := nodeAndPhase(group, &broken)
			require.NoError(t, store.Client().Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
			eventually(t, "another Machine in its place", func(ctx context.Context) string {
				for _, m := range listed(ctx, t, store, group) {
					if m.GetUID() == broken.GetUID() {
						return fmt.Sprint(m.GetName(), ": ", m.Object["status"])
					}
				}
				return runsThree(ctx, t, store, group)
			})
		})
	}
}

// isDescribed has manager describe explain vm1, and reads the counts of the deployment.
func isDescribed(t *testing.T, store *fake.Store, group api.Group) {
	t.Helper()
	o := describeOptions{commandFlags: commandFlags{namespace: "default", group: group}, name: "vm1"}
	r := describe.Reader{Client: store.Client(), Kind: kindsOf(group).Machine}
	var told bytes.Buffer
	require.NoError(t, o.describe(t.Context(), r, &told))
	require.Contains(t, told.String(), "Running")
	require.Contains(t, told.String(), "vm1-", "its Node")
	kind := kindsOf(group).Deployment
	eventually(t, "the counts", func(ctx context.Context) string {
		obj := kind.New()
		require.NoError(t, store.Client().Get(ctx, client.ObjectKey{Namespace: "default", Name: "workers"}, obj))
		var d contract.MachineDeploymentState
		require.NoError(t, kind.Adapter.Read(obj, &d))
		upToDate := d.UpToDateReplicas.Or(d.UpdatedReplicas.Or(0))
		if counts := []int32{d.ObservedReplicas.Or(0), d.AvailableReplicas.Or(d.NodeAvailableReplicas.Or(0)),
			upToDate}; !slices.Equal(counts, []int32{2, 2, 2}) {
			return fmt.Sprint(counts)
		}
		return ""
	})
}

// findsOrphans has the collector find an instance that no Machine of the group has, and only that one.
func findsOrphans(t *testing.T, store *fake.Store, group api.Group) {
	t.Helper()
	o := given(t, "--api-group="+string(group), "--driver=kwok", "--driver-qps=1000")
	o.Safety.Orphans = guard.OrphanLimits{StartDelay: time.Nanosecond}
	calls := o.driverCalls(store.Client(), nil, nil)
	stray := provider.Request{Token: "stray", Name: "stray"}
	_, err := calls.Create(t.Context(), stray)
	require.NoError(t, err)
	collector, err := guard.NewCollector(o.collector(store.Client(), calls))
	require.NoError(t, err)
	report, err := collector.Pass(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Blocked)
	require.Len(t, report.Orphans, 1)
	require.Equal(t, "stray", report.Orphans[0].Token)
	_, err = calls.Delete(t.Context(), stray)
	require.NoError(t, err)
}

func listed(ctx context.Context, t *testing.T, store *fake.Store, group api.Group) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(group.GroupVersion().WithKind("MachineList"))
	require.NoError(t, store.Client().List(ctx, list))
	return list.Items
}

// runsThree says what is missing until three Machines are Running in the words of their system, each with a Node of two CPUs.
func runsThree(ctx context.Context, t *testing.T, store *fake.Store, group api.Group) string {
	t.Helper()
	machines := listed(ctx, t, store, group)
	shown := map[string]bool{}
	for i := range machines {
		node, phase := nodeAndPhase(group, &machines[i])
		if phase != "Running" {
			return fmt.Sprint(machines[i].GetName(), " is ", phase, ": ", machines[i].Object["status"])
		}
		shown[node] = true
	}
	var nodes corev1.NodeList
	require.NoError(t, store.Client().List(ctx, &nodes))
	for i := range nodes.Items {
		delete(shown, nodes.Items[i].Name)
		require.Equal(t, "2", nodes.Items[i].Status.Capacity.Cpu().String(), "what the Machine, or its class, asks for")
	}
	if len(machines) != 3 || len(nodes.Items) != 3 || len(shown) > 0 {
		return fmt.Sprint(len(machines), " Machines, ", len(nodes.Items), " Nodes, without a Node: ", shown)
	}
	return ""
}

// nodeAndPhase are at the places that the system's own programs read.
func nodeAndPhase(group api.Group, m *unstructured.Unstructured) (node, phase string) {
	if group == api.Gardener {
		phase, _, _ = unstructured.NestedString(m.Object, "status", "currentStatus", "phase")
		return m.GetLabels()["node"], phase
	}
	node, _, _ = unstructured.NestedString(m.Object, "status", "nodeRef", "name")
	phase, _, _ = unstructured.NestedString(m.Object, "status", "phase")
	return node, phase
}

func TestAClassThatTheDriverRefusesIsNamedAndMayBeMended(t *testing.T) {
	t.Parallel()
	s := foreignSystems()[api.Gardener]
	s.objects = strings.Replace(s.objects, `cpu: "2"`, `cpu: many`, 1)
	store := runForeign(t, api.Gardener, s)
	m := create(t, store.Client(), `
apiVersion: machine.sapcloud.io/v1alpha1
kind: Machine
metadata: {name: vm1, namespace: default}
spec: {class: {kind: MachineClass, name: small}}
`)[0]
	infrastructureSays(t, store, api.Gardener, m,
		`InvalidConfiguration: kwok: MachineClass default/small: cpu "many": give a quantity above zero, such as 4 or 16Gi`)
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(api.Gardener.GroupVersion().WithKind("MachineClass"))
	require.NoError(t, store.Client().Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "small"}, class))
	require.NoError(t, unstructured.SetNestedField(class.Object, "2", "providerSpec", "cpu"))
	require.NoError(t, store.Client().Update(t.Context(), class))
	infrastructureSays(t, store, api.Gardener, m, contract.ReasonReady+": ")
}

func TestAMachineOfKubermaticWaitsForItsInitializers(t *testing.T) {
	t.Parallel()
	store := runForeign(t, api.Kubermatic, foreignSystems()[api.Kubermatic])
	m := create(t, store.Client(), fmt.Sprintf(`
apiVersion: cluster.k8s.io/v1alpha1
kind: Machine
metadata: {name: vm1, namespace: default, annotations: {%s: theirs}}
spec: {providerSpec: {value: {cloudProviderSpec: {cpu: "2"}}}}
`, machine.KubermaticInitializers))[0]
	phaseIs := func(want string) {
		eventually(t, want, func(ctx context.Context) string {
			require.NoError(t, store.Client().Get(ctx, client.ObjectKeyFromObject(m), m))
			if _, phase := nodeAndPhase(api.Kubermatic, m); phase != want {
				return phase
			}
			return ""
		})
	}
	phaseIs("Pending")
	var nodes corev1.NodeList
	require.NoError(t, store.Client().List(t.Context(), &nodes))
	require.Empty(t, nodes.Items)
	done := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, machine.KubermaticInitializers)
	require.NoError(t, store.Client().Patch(t.Context(), m, client.RawPatch(types.MergePatchType, done)))
	phaseIs("Running")
}

func TestAMachineOfKubermaticThatItsDriverCannotReadIsRefused(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]contract.ProviderSpec{
		"spec.providerSpec.valueFrom is not supported": {Class: contract.Ref{Kind: "MachineClass", Name: "small"}},
		"no object with a cloudProviderSpec":           {Spec: []byte(`["x"]`)},
	} {
		m := &contract.MachineState{}
		m.Provider = spec
		_, err := kubermaticRequest(t.Context(), m)
		require.ErrorContains(t, err, want)
		require.Equal(t, provider.Invalid, provider.ClassOf(err))
	}
}

func TestWhatAnotherSystemDoesNotHaveIsRefused(t *testing.T) {
	t.Parallel()
	const other = ": give cluster.x-k8s.io or machinist.dev"
	for flags, want := range map[string]string{
		"":                                       "refer to no infrastructure objects: give --driver=kwok, with --driver-as=step",
		"--driver=kwok --driver-as=inframachine": "give --driver=kwok, with --driver-as=step",
		"--driver=kwok --machinepools":           "--machinepools: --api-group=cluster.k8s.io has no MachinePools" + other,
		"--driver=kwok --workload-clusters":      "--workload-clusters: --api-group=cluster.k8s.io has Machines that name no Cluster" + other,
		"--driver=kwok --clusters=always":        "--clusters=always: --api-group=cluster.k8s.io has Machines that name no Cluster" + other,
		"--driver=kwok --install-crds":           "--install-crds: the other flags need no CRD of the manager's own",
	} {
		_, err := parse(append(strings.Fields(flags), "--api-group=cluster.k8s.io"), io.Discard)
		require.ErrorContains(t, err, want, flags)
	}
	_, err := parse([]string{"--machinepool-group=cluster.k8s.io"}, io.Discard)
	require.ErrorContains(t, err, `--machinepool-group "cluster.k8s.io": give cluster.x-k8s.io or machinist.dev`)
}

func TestTheRightsAreThoseOfTheOtherSystemsKinds(t *testing.T) {
	t.Parallel()
	all := []string{"--print-rbac", "--machinesets", "--machinedeployments", "--driver=kwok"}
	for _, group := range []string{"cluster.k8s.io", "machine.sapcloud.io"} {
		granted := rightsOf(t, append(all, "--api-group="+group)...)
		for right := range granted {
			theirs := strings.Contains(right, "x-k8s.io") && !strings.HasSuffix(right, "/machinedrainrules")
			require.False(t, theirs, "%s is Cluster API's", right)
		}
		require.Contains(t, granted[group+"/machines"], "patch")
		require.NotContains(t, granted, "/secrets")
		_, class := granted[group+"/machineclasses"]
		_, status := granted[group+"/machines/status"]
		require.Equal(t, []bool{group == "machine.sapcloud.io", group == "machine.sapcloud.io"}, []bool{class, status}, group)
	}
}

func TestMissingCRDsOfOtherSystemsAreExplained(t *testing.T) {
	t.Parallel()
	for group, want := range map[string]string{
		"cluster.k8s.io":      "does not serve machines of cluster.k8s.io/v1alpha1: install the CRDs of Kubermatic's machine-controller",
		"machine.sapcloud.io": "does not serve machines of machine.sapcloud.io/v1alpha1: install the CRDs of Gardener's",
	} {
		o := given(t, "--api-group="+group, "--driver=kwok")
		_, err := o.lookAtServer(fake.NewStore(fake.Options{}).RESTConfig())
		require.ErrorContains(t, err, want)
	}
	o := given(t, "--api-group=machine.sapcloud.io", "--driver=kwok")
	store := fake.NewStore(fake.Options{})
	require.NoError(t, store.Client().Create(t.Context(), fake.CRD(api.Gardener.Machine().GVK)))
	has, err := o.lookAtServer(store.RESTConfig())
	require.NoError(t, err)
	require.ErrorContains(t, o.needsClasses(has), "does not serve machineclasses of machine.sapcloud.io/v1alpha1: install the CRDs of")
}
