package machineset_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// worldOf has the kinds of sets and Machines served that a test brings along.
func worldOf(t *testing.T, kinds contract.Kinds) *world {
	t.Helper()
	w := newWorld(t, fake.Options{Kinds: []fake.ServedKind{
		{GVK: kinds.Set.GVK, Status: kinds.Set.StatusSubresource}, {GVK: kinds.Machine.GVK, Status: kinds.Machine.StatusSubresource},
	}})
	w.kinds = kinds
	return w
}

func TestSetsOfTheOlderVersionRefersAsThatDoes(t *testing.T) {
	t.Parallel()
	kinds, err := contract.ClusterAPI(contract.V1Beta1)
	require.NoError(t, err)
	w := worldOf(t, kinds).live()
	w.run(machineset.Options{})
	set := w.set("workers", 2)
	require.NoError(t, unstructured.SetNestedField(set.Object, int64(0), "spec", "minReadySeconds"))
	require.NoError(t, unstructured.SetNestedField(set.Object, "30s", "spec", "template", "spec", "nodeDrainTimeout"))
	for _, path := range [][]string{{"bootstrap", "configRef"}, {"infrastructureRef"}} {
		at := append([]string{"spec", "template", "spec"}, path...)
		group := testenv.Text(set, append(at, "apiGroup")...)
		unstructured.RemoveNestedField(set.Object, append(at, "apiGroup")...)
		require.NoError(t, unstructured.SetNestedField(set.Object, group+"/v1beta2", append(at, "apiVersion")...))
	}
	w.Create(set)
	w.has(set, 2)
	machine := w.machines()[0]
	ref, _, _ := unstructured.NestedStringMap(machine.Object, "spec", "infrastructureRef")
	require.Equal(t, map[string]string{
		"apiVersion": infraGVK().GroupVersion().String(), "kind": infraGVK().Kind, "name": machine.GetName(), "namespace": "default",
	}, ref)
	require.Equal(t, "30s", testenv.Text(&machine, "spec", "nodeDrainTimeout"))
	w.Eventually("count in both ways", func() string {
		fresh := w.Get(set)
		for _, path := range [][]string{
			{"readyReplicas"}, {"availableReplicas"}, {"fullyLabeledReplicas"}, {"v1beta2", "readyReplicas"}, {"v1beta2", "upToDateReplicas"},
		} {
			if testenv.Number(fresh, append([]string{"status"}, path...)...) != 2 {
				return w.describe(set)
			}
		}
		return ""
	})
}

// A set of an embedder's own kind, whose Machines say themselves what they are made of: there are no templates to clone.
func TestASetOfAnotherKindNeedsNoTemplates(t *testing.T) {
	t.Parallel()
	setGVK := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "ServerGroup"}
	machineGVK := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Server"}
	layout, machine := *contract.LayoutsOf(contract.V1Beta2).MachineSet, *contract.LayoutsOf(contract.V1Beta2).Machine
	layout.ClusterName, machine.ClusterName = contract.Field[string]{}, contract.Field[string]{}
	kinds := contract.Kinds{
		Set: contract.Unstructured(setGVK, &layout), Machine: contract.Unstructured(machineGVK, &machine),
		Maker: contract.UnstructuredMaker(&layout, machineGVK, &machine),
	}
	kinds.Machine.Finalizer = contract.NoFinalizer
	kinds.Set.StatusSubresource = false // and one that writes everything in one place
	w := worldOf(t, kinds).live()
	w.run(machineset.Options{})
	set := testenv.Object(setGVK, "web")
	set.Object["spec"] = map[string]any{
		"replicas": int64(3), "template": map[string]any{"spec": map[string]any{"providerSpec": map[string]any{"size": "s"}}},
	}
	w.Create(set)
	w.until("have three Servers", func() bool {
		return len(w.machines()) == 3 && testenv.Number(w.Get(set), "status", "readyReplicas") == 3
	})
	require.Equal(t, "s", testenv.Text(&w.machines()[0], "spec", "providerSpec", "size"))
	require.Empty(t, w.machines()[0].GetFinalizers())
	w.told("SuccessfulCreate", corev1.EventTypeNormal, "Created 3 Servers: web-")
	require.NoError(t, w.Client.Delete(t.Context(), set))
	w.until("all to go", func() bool { return w.Get(set) == nil && len(w.machines()) == 0 })
}

// noAnnotations is an adapter of a kind whose update leaves annotations out.
type noAnnotations struct {
	contract.Adapter[contract.MachineSetState, contract.MachineSetUpdate]
}

func (f noAnnotations) Write(obj contract.Object, u contract.MachineSetUpdate) error {
	u.Annotations = nil
	return f.Adapter.Write(obj, u)
}

func TestAKindThatForgetsWhatASetRestsOnIsRefused(t *testing.T) {
	t.Parallel()
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	kinds.Set.Adapter = noAnnotations{kinds.Set.Adapter}
	_, err = machineset.New(kinds, pass.Ports{}, machineset.Options{})
	require.ErrorContains(t, err, "Annotations is not stored, so pauses, hooks, excluded drains and what was created are not seen")
}

func TestASetFollowsItsClusterAndWaitsForItsControlPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	plane := schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "FakeControlPlane"}
	w.Create(fake.CRD(plane, contract.V1Beta2))
	control := testenv.Object(plane, "demo")
	control.Object["spec"] = map[string]any{"version": "v1.36.3"}
	w.Create(control)
	cluster := fake.Cluster("demo", fake.WithField(true, "spec", "paused"),
		fake.WithField(map[string]any{"apiGroup": plane.Group, "kind": plane.Kind, "name": "demo"}, "spec", "controlPlaneRef"))
	w.Create(cluster)
	w.runWithClusters()
	set := w.set("workers", 2)
	w.Create(set)
	w.conditionSays(set, contract.ConditionPaused, "Cluster spec.paused is set to true")
	require.Empty(t, w.Get(set).GetFinalizers())
	w.Change(cluster, func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "paused") })
	w.conditionSays(set, contract.ConditionScalingUp, "the control plane is being provisioned")
	require.Empty(t, w.machines())
	require.NoError(t, w.Client.Delete(t.Context(), control))
	w.conditionSays(set, contract.ConditionScalingUp, "FakeControlPlane demo could not be read, or does not exist")
	w.Change(set, fake.WithAnnotations(map[string]string{scale.SkipPreflightAnnotation: scale.CheckAll}))
	w.has(set, 2)
	owner := func(obj *unstructured.Unstructured) []metav1.OwnerReference { return w.Get(obj).GetOwnerReferences() }
	require.Equal(t, cluster.GetUID(), owner(set)[0].UID, "it has no other owner")
	require.Equal(t, cluster.GetUID(), owner(w.template(infraGVK()))[0].UID)
	require.Equal(t, "demo", w.Get(set).GetLabels()[contract.ClusterNameLabel])

	// A Cluster that is gone cannot pause a set in deletion.
	require.NoError(t, w.Client.Delete(t.Context(), cluster, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	w.conditionSays(set, contract.ConditionPaused, "does not exist")
	require.NoError(t, w.Client.Delete(t.Context(), set))
	w.Gone(set)
}

func TestASetOfAProviderThatSpeaksAnOldContractCreatesMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	for _, gvk := range []schema.GroupVersionKind{infraGVK(), bootstrapGVK(), templateOf(infraGVK()), templateOf(bootstrapGVK())} {
		w.Change(fake.CRD(gvk), func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{contract.V1Alpha3.Label(): gvk.Version})
		})
	}
	w.run(machineset.Options{Options: pass.Options{ContractVersions: contract.AllVersions()}})
	set := w.set("workers", 1)
	w.Create(set)
	w.has(set, 1)
}

// The answer to a place that does not exist is the same number as that to an object that does not exist.
func TestASetWhoseCRDHasNoStatusSubresourceSaysSo(t *testing.T) {
	t.Parallel()
	kinds := kindsOf(t)
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "ServerGroup"}
	kinds.Set = contract.Unstructured(gvk, contract.LayoutsOf(contract.V1Beta2).MachineSet)
	kinds.Set.StatusSubresource = false
	w := newWorld(t, fake.Options{Kinds: []fake.ServedKind{{GVK: gvk}}}).live()
	w.kinds.Set, w.kinds.Set.StatusSubresource = kinds.Set, true
	set := w.set("workers", 1)
	w.Create(set)
	w.fails(w.reconciler(func(ctrl.Manager, *pass.Ports) {}), set, "has no status subresource")
	w.kinds.Set.StatusSubresource = false
	w.run(machineset.Options{})
	w.has(set, 1)
}

// system is a system whose sets are kept: its kinds, what a set of it says beside replicas and a selector, and how one of its Machines is
// marked to go first.
type system struct {
	kinds            contract.Kinds
	scheme           *runtime.Scheme
	template         map[string]any
	mark, markedWith string
}

func systems(t *testing.T) map[string]system {
	t.Helper()
	v1beta1, err := contract.ClusterAPI(contract.V1Beta1)
	require.NoError(t, err)
	clusterAPI := map[string]any{"version": "v1.36.3", "bootstrap": map[string]any{"dataSecretName": "data"}}
	typed, scheme := testenv.Fleets()
	return map[string]system{
		"Cluster API v1beta1": {kinds: v1beta1, template: clusterAPI, mark: scale.DeleteAnnotation},
		"Cluster API v1beta2": {kinds: kindsOf(t), template: clusterAPI, mark: scale.DeleteAnnotation},
		"Kubermatic": {kinds: contract.Kubermatic(), mark: scale.DeleteAnnotation, markedWith: "yes", template: map[string]any{
			"providerSpec": map[string]any{"value": map[string]any{"cloudProvider": "aws"}}, "versions": map[string]any{"kubelet": "1.36.3"}}},
		"Kubermatic with an autoscaler of its group": {kinds: contract.Kubermatic(), mark: "cluster.k8s.io/delete-machine", markedWith: "now",
			template: map[string]any{"versions": map[string]any{"kubelet": "1.36.3"}}},
		"Gardener": {kinds: contract.Gardener(), mark: scale.PriorityAnnotation, markedWith: "1", template: map[string]any{
			"class": map[string]any{"kind": "MachineClass", "name": "small"}}},
		"Go types": {kinds: typed, scheme: scheme, mark: scale.DeleteAnnotation, template: map[string]any{"size": "small"}},
	}
}

func TestSetsOfEverySystemGrowShrinkReplaceAndGo(t *testing.T) {
	t.Parallel()
	for name, s := range systems(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldOf(t, s.kinds)
			mgr := w.Manager("lives", ctrl.Options{Scheme: s.scheme})
			require.NoError(t, fake.NewMachines(mgr.GetClient(), s.kinds.Machine).SetupWithManager(mgr))
			w.Run(mgr)
			w.runWith(ctrl.Options{Scheme: s.scheme}, machineset.Options{})
			set := testenv.Object(s.kinds.Set.GVK, "workers")
			labels := map[string]any{"pool": "workers"}
			set.Object["spec"] = map[string]any{"replicas": int64(2), "selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": s.template}}
			w.Create(set)
			w.counts(set, 2)
			w.scale(set, 4)
			w.counts(set, 4)
			machines := w.machines()
			for i := range machines {
				for member, want := range s.template {
					require.Equal(t, want, machines[i].Object["spec"].(map[string]any)[member])
				}
			}
			marked := machines[2]
			w.Change(&marked, annotated(s.mark, s.markedWith))
			w.scale(set, 3)
			w.counts(set, 3)
			require.Nil(t, w.Get(&marked), "the marked one goes")
			if s.scheme == nil { // their Machines have conditions of health checks
				all := w.machines()
				w.Quiet("lives", quiet)
				w.mark(&all[0])
				w.Gone(&all[0])
				w.counts(set, 3)
				require.NotNil(t, w.Get(&all[1]), "the others stay")
				require.NotNil(t, w.Get(&all[2]), "the others stay")
			}
			require.NoError(t, w.Client.Delete(t.Context(), set))
			w.until("all to go", func() bool { return len(w.machines()) == 0 && w.Get(set) == nil })
		})
	}
}

// counts waits until a set has so many Machines and its status says so.
func (w *world) counts(set *unstructured.Unstructured, n int) {
	w.t.Helper()
	w.until(fmt.Sprintf("have %d Machines", n), func() bool {
		replicas := testenv.Number(w.Get(set), "status", "replicas")
		return len(w.machines()) == n && replicas == int64(n) && testenv.Number(w.Get(set), "status", "readyReplicas") == int64(n)
	})
}
