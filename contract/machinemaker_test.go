package contract_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

func makerOf(version string) (contract.MachineMaker, contract.Kind) {
	gvk := schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: version, Kind: "Machine"}
	if version == "v1beta1" {
		return contract.UnstructuredMaker(contract.LayoutsOf(contract.V1Beta1).MachineSet, gvk, contract.LayoutsOf(contract.V1Beta1).Machine),
			contract.Unstructured(gvk, contract.LayoutsOf(contract.V1Beta1).Machine)
	}
	return contract.UnstructuredMaker(contract.LayoutsOf(contract.V1Beta2).MachineSet, gvk, contract.LayoutsOf(contract.V1Beta2).Machine),
		contract.Unstructured(gvk, contract.LayoutsOf(contract.V1Beta2).Machine)
}

func fullSet(t *testing.T, version string) *unstructured.Unstructured {
	t.Helper()
	if version == "v1beta1" {
		return parseObject(t, fullMachineSetV1Beta1)
	}
	return parseObject(t, fullMachineSetV1Beta2)
}

func seedOf() contract.MachineSeed {
	return contract.MachineSeed{Seed: contract.Seed{
		Key: types.NamespacedName{Namespace: "ns", Name: "workers-x"}, Labels: map[string]string{"l": "1"},
		Annotations: map[string]string{"a": "2"},
		Finalizers:  []string{"f"},
		Owners: []metav1.OwnerReference{
			{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "workers", UID: "u", Controller: new(true)}}},
		Bootstrap:        contract.Ref{Group: "bootstrap.example.com", Kind: "Config", Name: "workers-x"},
		BootstrapVersion: "v1",
		Infrastructure:   contract.Ref{Group: "infra.example.com", Kind: "Server", Name: "workers-x"}, InfrastructureVersion: "v2",
	}
}

func TestNewMachine(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1beta2"} {
		t.Run(version, func(t *testing.T) {
			maker, machines := makerOf(version)
			set, before := fullSet(t, version), fullSet(t, version)
			made, err := maker.NewMachine(set, seedOf())
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(before.Object, set.Object), "the set does not change")

			var template contract.MachineSetState
			setKind := contract.Unstructured(set.GroupVersionKind(), contract.LayoutsOf(contract.V1Beta2).MachineSet)
			if version == "v1beta1" {
				setKind = contract.Unstructured(set.GroupVersionKind(), contract.LayoutsOf(contract.V1Beta1).MachineSet)
			}
			require.NoError(t, setKind.Adapter.Read(set, &template))
			var got contract.MachineState
			require.NoError(t, machines.Adapter.Read(made, &got))
			seed := seedOf()
			want := template.Template.MachineSpec
			want.ClusterName, want.Bootstrap, want.Infrastructure = template.ClusterName, seed.Bootstrap, seed.Infrastructure
			if version == "v1beta1" {
				want.MinReady = contract.Opt[time.Duration]{} // it stands in the set there
			}
			requireStates(t, want, got.MachineSpec)
			require.Equal(t, seed.Key, got.Key)
			require.Equal(t, seed.Labels, got.Labels)
			require.Equal(t, seed.Annotations, got.Annotations)
			require.Equal(t, seed.Finalizers, got.Finalizers)
			require.Equal(t, seed.Owners, got.OwnerReferences)
			if version == "v1beta1" {
				at, _, err := unstructured.NestedString(made.(*unstructured.Unstructured).Object, "spec", "infrastructureRef", "apiVersion")
				require.NoError(t, err)
				require.Equal(t, "infra.example.com/v2", at)
			}

			// Nothing is shared with a set that may be in a cache.
			made.(*unstructured.Unstructured).Object["spec"].(map[string]any)["taints"] = "changed"
			require.Empty(t, cmp.Diff(before.Object, set.Object))
		})
	}
}

func TestSyncMachine(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1beta2"} {
		t.Run(version, func(t *testing.T) {
			maker, machines := makerOf(version)
			set := fullSet(t, version)
			machine := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"version": "v1.0.0", "failureDomain": "here"}}}
			given, err := maker.SyncMachine(set, machine, nil)
			require.NoError(t, err)
			var got contract.MachineState
			require.NoError(t, machines.Adapter.Read(machine, &got))
			require.Equal(t, "v1.0.0", got.Version, "what a machine is made of stays")
			require.Equal(t, "here", got.WantedFailureDomain)
			require.NotEmpty(t, got.Taints)
			require.NotEmpty(t, got.ReadinessGates)
			require.True(t, got.NodeDrainTimeout.Found() && got.NodeVolumeDetachTimeout.Found() && got.NodeDeletionTimeout.Found())
			require.Equal(t, version == "v1beta2", got.MinReady.Found())

			again := machine.DeepCopy()
			repeated, err := maker.SyncMachine(set, again, given)
			require.NoError(t, err)
			require.Equal(t, given, repeated)
			require.Empty(t, cmp.Diff(machine.Object, again.Object), "a second time changes nothing")

			silent := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
			kept := machine.DeepCopy()
			none, err := maker.SyncMachine(silent, kept, nil)
			require.NoError(t, err)
			require.Empty(t, none)
			require.Empty(t, cmp.Diff(machine.Object, kept.Object), "what others gave stays")
			empty := parseObject(t, `{"spec":{"template":{"spec":{"readinessGates":[],"taints":[]}}}}`)
			none, err = maker.SyncMachine(empty, kept, nil)
			require.NoError(t, err)
			require.Empty(t, none)
			require.Empty(t, cmp.Diff(machine.Object, kept.Object), "an empty list takes nothing of others away")
			none, err = maker.SyncMachine(silent, machine, given)
			require.NoError(t, err)
			require.Empty(t, none)
			require.Empty(t, cmp.Diff(map[string]any{"spec": map[string]any{"version": "v1.0.0", "failureDomain": "here"}}, machine.Object))
		})
	}
}

func TestAMakerRefusesObjectsThatItCannotRead(t *testing.T) {
	maker, _ := makerOf("v1beta2")
	_, err := maker.NewMachine(&Server{}, contract.MachineSeed{})
	require.ErrorIs(t, err, contract.ErrOtherType)
	_, err = maker.SyncMachine(&Server{}, &Server{}, nil)
	require.ErrorIs(t, err, contract.ErrOtherType)
	bad := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": "text"}}}}
	_, err = maker.NewMachine(bad, contract.MachineSeed{})
	require.ErrorIs(t, err, contract.ErrWrongType)
	bad = &unstructured.Unstructured{
		Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"taints": "text"}}}}}
	_, err = maker.SyncMachine(bad, &unstructured.Unstructured{Object: map[string]any{}}, nil)
	require.ErrorIs(t, err, contract.ErrWrongType)
}

func TestSyncMachine_Gardener(t *testing.T) {
	of := contract.GardenerLayouts()
	maker := contract.UnstructuredMaker(of.MachineSet, schema.GroupVersionKind{Kind: "Machine"}, of.Machine)
	set := parseObject(t, `{"spec":{"template":`+templateGardener+`}}`)
	machine := parseObject(t, `{"spec":{"class":{"kind":"Old","name":"old"},"providerID":"p://1","nodeTemplate":{"spec":{"unschedulable":true}}}}`)
	given, err := maker.SyncMachine(set, machine, nil)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(parseJSON(t, `{"spec":{"class":{"apiGroup":"machine.sapcloud.io","kind":"MachineClass","name":"old"},
		"providerID":"p://1","drainTimeout":"0s","healthTimeout":"10m0s","nodeTemplate":{
		"metadata":{"labels":{"of":"the Node"},"annotations":{"its":"own"}},"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}}}`), machine.Object))
	_, err = maker.SyncMachine(parseObject(t, `{"spec":{"template":{"spec":{"nodeTemplate":null}}}}`), machine, given)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(parseJSON(t, `{"spec":{"class":{"name":"old"},"providerID":"p://1"}}`), machine.Object))
}
