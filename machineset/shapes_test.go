package machineset_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/external"
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
		group, _, _ := unstructured.NestedString(set.Object, append(at, "apiGroup")...)
		unstructured.RemoveNestedField(set.Object, append(at, "apiGroup")...)
		require.NoError(t, unstructured.SetNestedField(set.Object, group+"/v1beta2", append(at, "apiVersion")...))
	}
	w.create(set)
	w.has(set, 2)
	machine := w.machines()[0]
	ref, _, _ := unstructured.NestedStringMap(machine.Object, "spec", "infrastructureRef")
	require.Equal(t, map[string]string{
		"apiVersion": infraGVK().GroupVersion().String(), "kind": infraGVK().Kind, "name": machine.GetName(), "namespace": "default",
	}, ref)
	drain, _, _ := unstructured.NestedString(machine.Object, "spec", "nodeDrainTimeout")
	require.Equal(t, "30s", drain)
	w.eventually("count in both ways", func() string {
		fresh := w.get(set)
		for _, path := range [][]string{
			{"readyReplicas"}, {"availableReplicas"}, {"fullyLabeledReplicas"}, {"v1beta2", "readyReplicas"}, {"v1beta2", "upToDateReplicas"},
		} {
			if got, _, _ := unstructured.NestedInt64(fresh.Object, append([]string{"status"}, path...)...); got != 2 {
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
	set := object(setGVK, "web")
	set.Object["spec"] = map[string]any{
		"replicas": int64(3), "template": map[string]any{"spec": map[string]any{"providerSpec": map[string]any{"size": "s"}}},
	}
	w.create(set)
	w.eventually("have three Servers", func() string {
		got, _, _ := unstructured.NestedInt64(w.get(set).Object, "status", "readyReplicas")
		if len(w.machines()) != 3 || got != 3 {
			return w.describe(set)
		}
		return ""
	})
	size, _, _ := unstructured.NestedString(w.machines()[0].Object, "spec", "providerSpec", "size")
	require.Equal(t, "s", size)
	require.Empty(t, w.machines()[0].GetFinalizers())
	w.told("SuccessfulCreate", corev1.EventTypeNormal, "Created 3 Servers: web-")
	require.NoError(t, w.client.Delete(t.Context(), set))
	w.eventually("all to go", func() string {
		if w.get(set) != nil || len(w.machines()) > 0 {
			return w.describe(set)
		}
		return ""
	})
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
	require.ErrorContains(t, err, "Annotations is not kept, so pauses, hooks, excluded drains and what was created are not seen")
}

func TestASetIsAsCheapAsItCanBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	clock := clocktesting.NewFakePassiveClock(time.Now()) // however slow this test is, that alone is worth no status
	w.run(machineset.Options{Options: pass.Options{StatusDelay: 500 * time.Millisecond, Clock: clock}})
	set := w.set("workers", 40)
	w.create(set)
	w.eventually("have 40 Machines that are ready", func() string {
		ready := 0
		for _, m := range w.machines() {
			if c, _, _ := contract.ConditionsAt("status", "conditions").Find(m.Object, "Ready"); c.Status == metav1.ConditionTrue {
				ready++
			}
		}
		if ready != 40 {
			return fmt.Sprintf("%d are; %s", ready, w.describe(set))
		}
		return ""
	})
	clock.SetTime(clock.Now().Add(time.Second))
	w.has(set, 40)
	count := testenv.Count(w.Writes(userAgent), func(r fake.Request) string { return r.Verb + " " + r.GVK.Kind + r.Subresource })
	t.Log(count)
	for _, kind := range []string{"Machine", infraGVK().Kind, bootstrapGVK().Kind} {
		require.Equal(t, 40, count["create "+kind])
		require.Zero(t, count["patch "+kind])
	}
	require.LessOrEqual(t, count["patch MachineSet"], 4, "finalizer, names, and that they are used")
	require.LessOrEqual(t, count["patch MachineSetstatus"], 6)
	w.Quiet(userAgent, time.Second)
}

func TestASetFollowsItsClusterAndWaitsForItsControlPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	plane := schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "FakeControlPlane"}
	w.create(fake.CRD(plane, contract.V1Beta2))
	control := object(plane, "demo")
	control.Object["spec"] = map[string]any{"version": "v1.36.3"}
	w.create(control)
	cluster := fake.Cluster("demo", fake.WithField(true, "spec", "paused"),
		fake.WithField(map[string]any{"apiGroup": plane.Group, "kind": plane.Kind, "name": "demo"}, "spec", "controlPlaneRef"))
	w.create(cluster)
	mgr := w.manager(userAgent)
	clusters, err := external.ClustersFromManager(mgr, external.ClusterOptions{})
	require.NoError(t, err)
	ports := pass.PortsFromManager(mgr)
	ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	r, err := machineset.New(w.kinds, ports, machineset.Options{Options: pass.Options{StatusDelay: -1}})
	require.NoError(t, err)
	require.NoError(t, r.AddToManager(t.Context(), mgr))
	w.start(mgr)
	set := w.set("workers", 2)
	w.create(set)
	w.conditionSays(set, contract.ConditionPaused, "Cluster spec.paused is set to true")
	require.Empty(t, w.get(set).GetFinalizers())
	w.change(cluster, func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "paused") })
	w.conditionSays(set, contract.ConditionScalingUp, "the control plane is being provisioned")
	require.Empty(t, w.machines())
	require.NoError(t, w.client.Delete(t.Context(), control))
	w.conditionSays(set, contract.ConditionScalingUp, "FakeControlPlane demo could not be read, or does not exist")
	w.change(set, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{scale.SkipPreflightAnnotation: scale.CheckAll})
	})
	w.has(set, 2)
	owner := func(obj *unstructured.Unstructured) []metav1.OwnerReference { return w.get(obj).GetOwnerReferences() }
	require.Equal(t, cluster.GetUID(), owner(set)[0].UID, "it has no other owner")
	require.Equal(t, cluster.GetUID(), owner(w.template(infraGVK()))[0].UID)
	require.Equal(t, "demo", w.get(set).GetLabels()[contract.ClusterNameLabel])

	// A Cluster that is gone cannot pause a set in deletion.
	require.NoError(t, w.client.Delete(t.Context(), cluster, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	w.conditionSays(set, contract.ConditionPaused, "does not exist")
	require.NoError(t, w.client.Delete(t.Context(), set))
	w.eventually("the set to go", func() string {
		if w.get(set) != nil {
			return w.describe(set)
		}
		return ""
	})
}

func TestASetOfAProviderThatSpeaksAnOldContractCreatesMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	for _, gvk := range []schema.GroupVersionKind{infraGVK(), bootstrapGVK(), templateOf(infraGVK()), templateOf(bootstrapGVK())} {
		w.change(fake.CRD(gvk), func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{contract.V1Alpha3.Label(): gvk.Version})
		})
	}
	w.run(machineset.Options{Options: pass.Options{ContractVersions: contract.AllVersions()}})
	set := w.set("workers", 1)
	w.create(set)
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
	w.create(set)
	w.fails(w.reconciler(func(ctrl.Manager, *pass.Ports) {}), set, "has no status subresource")
	w.kinds.Set.StatusSubresource = false
	w.run(machineset.Options{})
	w.has(set, 1)
}
