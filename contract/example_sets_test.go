package contract_test

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// Read both versions of a MachineDeployment: the places differ, the values do not.
func ExampleMachineDeploymentState() {
	numbers := map[string]any{"maxSurge": "40%", "maxUnavailable": int64(0)}
	old := map[string]any{"strategy": map[string]any{"rollingUpdate": numbers}}
	current := map[string]any{"rollout": map[string]any{"strategy": map[string]any{"rollingUpdate": numbers}}}
	show := func(version string, layout *contract.MachineDeploymentLayout, spec map[string]any) {
		gvk := schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: version, Kind: "MachineDeployment"}
		var state contract.MachineDeploymentState
		err := contract.Unstructured(gvk, layout).Adapter.Read(&unstructured.Unstructured{Object: map[string]any{"spec": spec}}, &state)
		surge, _ := state.MaxSurge.Get()
		unavailable, _ := state.MaxUnavailable.Get()
		fmt.Println(version, surge.String(), unavailable.String(), err)
	}
	show("v1beta1", contract.LayoutsOf(contract.V1Beta1).MachineDeployment, old)
	show("v1beta2", contract.LayoutsOf(contract.V1Beta2).MachineDeployment, current)
	// Output:
	// v1beta1 40% 0 <nil>
	// v1beta2 40% 0 <nil>
}

// Write what was counted, and nothing else changes. In v1beta1 the counters by conditions have a place of their own.
func ExampleMachineSetUpdate() {
	for version, layout := range map[string]*contract.MachineSetLayout{
		"v1beta1": contract.LayoutsOf(contract.V1Beta1).MachineSet, "v1beta2": contract.LayoutsOf(contract.V1Beta2).MachineSet,
	} {
		kind := contract.Unstructured(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: version, Kind: "MachineSet"}, layout)
		set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(3)}}}

		var update contract.MachineSetUpdate
		update.ObservedReplicas, update.ReadyReplicas = contract.SetTo(int32(3)), contract.SetTo(int32(0))
		err := kind.Adapter.Write(set, update)
		raw, _ := json.Marshal(set.Object)
		fmt.Println(version, err, string(raw))

		var state contract.MachineSetState
		err = kind.Adapter.Read(set, &state)
		_, known := state.AvailableReplicas.Get()
		fmt.Println(version, err, state.ReadyReplicas.Or(-1), known)
	}
	// Unordered output:
	// v1beta1 <nil> {"spec":{"replicas":3},"status":{"replicas":3,"v1beta2":{"readyReplicas":0}}}
	// v1beta1 <nil> 0 false
	// v1beta2 <nil> {"spec":{"replicas":3},"status":{"readyReplicas":0,"replicas":3}}
	// v1beta2 <nil> 0 false
}

// Make a layout for a CRD of your own: copy the nearest one, change places, and put what the schema lacks into annotations.
func ExampleMachineLayout() {
	layout := *contract.LayoutsOf(contract.V1Beta2).Machine
	layout.NodeName = contract.AtAnnotation[string]("example.com/node")
	layout.Phase = contract.AtAnnotation[string]("example.com/phase")
	layout.LastUpdated = contract.AtAnnotation[time.Time]("example.com/changed")
	layout.ProviderID = contract.At[string]("status", "instanceID")
	kind := contract.Unstructured(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Server"}, &layout)

	server := kind.New().(*unstructured.Unstructured)
	err := kind.Adapter.Write(server, contract.MachineUpdate{
		ProviderID: contract.SetTo("example://1"), Phase: contract.SetTo("Running"),
		Node: contract.SetTo(contract.NodeRef{Name: "node-1"}),
	})
	raw, _ := json.Marshal(server.Object)
	fmt.Println(err, string(raw))
	// Output:
	// <nil> {"apiVersion":"example.com/v1","kind":"Server","metadata":{"annotations":{"example.com/node":"node-1","example.com/phase":"Running"}},"status":{"instanceID":"example://1"}}
}

// A deployment of Gardener's shape asks for another class: it needs another set, and a rollback takes the old class back.
func ExampleUnstructuredSetMaker() {
	gvk := schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "MachineSet"}
	maker := contract.UnstructuredSetMaker(contract.GardenerLayouts().MachineDeployment, gvk, contract.GardenerLayouts().MachineSet)
	class := map[string]any{"kind": "MachineClass", "name": "small"}
	deployment := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"template": map[string]any{"spec": map[string]any{"class": class}},
	}}}
	own := map[string]string{contract.TemplateHashLabel: "abc"}
	set, err := maker.NewSet(deployment, contract.MachineSetSeed{TemplateLabels: own, SelectorLabels: own})
	if err != nil {
		fmt.Println(err)
		return
	}
	class["name"] = "large"
	fmt.Println(maker.TemplateDiff(deployment, set))
	fmt.Println(maker.CopyTemplate(set, deployment))
	fmt.Println(maker.TemplateDiff(deployment, set))
	// Output:
	// [spec.template.spec.class.name] <nil>
	// <nil>
	// [] <nil>
}
