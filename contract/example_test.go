package contract_test

import (
	"encoding/json"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// Read an InfraMachine of any provider: the labels of its CRD say which contract it fulfils.
func ExampleInfraMachineLayout_Read() {
	crd := metav1.ObjectMeta{
		Name:   contract.CRDName(schema.GroupKind{Group: "infrastructure.example.com", Kind: "ExampleMachine"}),
		Labels: map[string]string{"cluster.x-k8s.io/v1beta1": "v1alpha1_v1beta1", "cluster.x-k8s.io/v1beta2": "v1"},
	}
	resolved, err := contract.Resolve(crd.Name, crd.Labels)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(crd.Name, "is read at", resolved.APIVersion, "with contract", resolved.Contract)

	obj := &unstructured.Unstructured{Object: map[string]any{
		"kind": "ExampleMachine", "metadata": map[string]any{"namespace": "default", "name": "worker-1"},
		"spec":   map[string]any{"providerID": "example://eu/42"},
		"status": map[string]any{"initialization": map[string]any{"provisioned": true}},
	}}
	var state contract.InfraMachineState
	layout := contract.LayoutsOf(resolved.Contract).InfraMachine
	fmt.Println(layout.Read(obj, &state), state.Provisioned, state.ProviderID, state.FailureDomain.Or("(not said)"))

	obj.Object["status"] = map[string]any{"initialization": map[string]any{"provisioned": "true"}}
	err = layout.Read(obj, &state)
	fmt.Println(errors.Is(err, contract.ErrWrongType), err)
	// Output:
	// examplemachines.infrastructure.example.com is read at v1 with contract v1beta2
	// <nil> true example://eu/42 (not said)
	// true ExampleMachine default/worker-1 breaks contract v1beta2: status.initialization.provisioned: want bool, found string
}

// A Field is the place of one value: absent, there, or of another type.
func ExampleField() {
	ready := contract.At[bool]("status", "initialization", "provisioned")
	for _, status := range []any{nil, map[string]any{"initialization": map[string]any{"provisioned": false}}, "Ready"} {
		value, found, err := ready.Get(map[string]any{"status": status})
		fmt.Println(value, found, err)
	}
	// Output:
	// false false <nil>
	// false true <nil>
	// false false status: want object, found string
}

// Describe a CRD of your own with a table, and any reconciler of this module can read and write it.
func ExampleUnstructured() {
	layout := contract.MachineLayout{
		MachineSpecLayout: contract.MachineSpecLayout{
			ProviderID:       contract.At[string]("spec", "instance", "id"),
			Infrastructure:   contract.RefAt("spec", "instance", "ref"),
			NodeDrainTimeout: contract.SecondsAt("spec", "drainSeconds"),
		},

		Phase:    contract.At[string]("status", "stage"),
		NodeName: contract.At[string]("status", "node"),
		NodeUID:  contract.AtAnnotation[string](contract.NodeUIDAnnotation), // the CRD has no field for it
	}
	kind := contract.Unstructured(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Server"}, &layout)

	server := kind.New()
	err := kind.Adapter.Write(server, contract.MachineUpdate{
		ProviderID: contract.SetTo("example://eu/42"),
		Phase:      contract.SetTo("Running"),
		Node:       contract.SetTo(contract.NodeRef{Name: "node-7", UID: "8d1f"}),
	})
	raw, _ := json.Marshal(server)
	fmt.Println(err, string(raw))

	var state contract.MachineState
	fmt.Println(kind.Adapter.Read(server, &state), state.Node)
	// Output:
	// <nil> {"apiVersion":"example.com/v1","kind":"Server","metadata":{"annotations":{"machinist.dev/node-uid":"8d1f"}},"spec":{"instance":{"id":"example://eu/42"}},"status":{"node":"node-7","stage":"Running"}}
	// <nil> {node-7 8d1f}
}

// Describe a deployment of your own: where its template is, and of what it makes Machines. A change there is a rollout.
func ExampleMachineDeploymentLayout() {
	template := contract.MachineTemplateLayout{
		Labels: contract.At[map[string]string]("spec", "template", "metadata", "labels"),
		MachineSpecLayout: contract.MachineSpecLayout{
			Infrastructure: contract.RefField{Kind: contract.At[string]("spec", "template", "spec", "class", "kind"),
				Name: contract.At[string]("spec", "template", "spec", "class", "name")},
		},
		MadeOf: []contract.Path{contract.NewPath("spec", "template", "spec", "image")},
	}
	replicated := contract.ReplicatedLayout{Replicas: contract.At[int32]("spec", "size"), Template: template}
	deployments := contract.MachineDeploymentLayout{ReplicatedLayout: replicated, RolloutPaused: contract.At[bool]("spec", "hold")}
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Rack"}
	maker := contract.UnstructuredSetMaker(&deployments, gvk, &contract.MachineSetLayout{ReplicatedLayout: replicated})

	image := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"image": name, "note": name}}},
		}}
	}
	fmt.Println(maker.TemplateDiff(image("v2"), image("v1")))
	// Output: [spec.template.spec.image] <nil>
}

// A patch says only what changed.
func ExampleMergePatch() {
	before := map[string]any{"spec": map[string]any{"replicas": int64(1), "paused": true}}
	after := map[string]any{"spec": map[string]any{"replicas": int64(3), "zones": []any{"a"}}}
	raw, _ := json.Marshal(contract.MergePatch(before, after))
	fmt.Println(string(raw))
	// Output: {"spec":{"paused":null,"replicas":3,"zones":["a"]}}
}

// What two packages need is joined: each verb on each resource once, sorted.
func ExampleMergePolicyRules() {
	index := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"watch", "list"}}}
	drains := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: []string{"list", "watch"}},
	}
	for _, rule := range contract.MergePolicyRules(index, drains) {
		fmt.Printf("%q %s %s\n", rule.APIGroups, rule.Resources, rule.Verbs)
	}
	// Output:
	// [""] [nodes] [list patch watch]
	// [""] [pods] [list watch]
	// ["policy"] [poddisruptionbudgets] [list watch]
}
