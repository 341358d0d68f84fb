package contract_test

import (
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// The labels of a CRD say how its objects are read; a CRD without them is trouble that a person can mend.
func ExampleResolve() {
	for _, labels := range []map[string]string{
		{"cluster.x-k8s.io/v1beta1": "v1alpha1_v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta1_v1"},
		{"cluster.x-k8s.io/v1beta1": "v1beta1_v1beta2"},
		{"cluster.x-k8s.io/v1beta2": ""},
		{"cluster.x-k8s.io/v1alpha4": "v1alpha4"},
	} {
		resolved, err := contract.Resolve("examplemachines.example.com", labels)
		if errors.Is(err, contract.ErrNoContract) {
			fmt.Println(err)
			continue
		}
		fmt.Println("read version", resolved.APIVersion, "with contract", resolved.Contract)
	}
	// Output:
	// read version v1 with contract v1beta2
	// read version v1beta2 with contract v1beta1
	// CustomResourceDefinition examplemachines.example.com has the contract label cluster.x-k8s.io/v1beta2 with value "", which names no API version: its provider must set it to the API versions that fulfil the contract, joined by underscores
	// CustomResourceDefinition examplemachines.example.com has no supported contract label: its provider must set cluster.x-k8s.io/v1beta2 to the API versions that fulfil it; this version of the provider fulfils only contract v1alpha4, so upgrade it
}

// Honour contracts that Cluster API itself has given up.
func ExampleAllVersions() {
	labels := map[string]string{"cluster.x-k8s.io/v1alpha4": "v1alpha4"}
	resolved, err := contract.Resolve("examplemachines.example.com", labels, contract.AllVersions()...)
	fmt.Println(resolved.Contract, err)
	// Output: v1alpha4 <nil>
}

// A CRD that is missing is not an object that is missing: on the strength of this error nothing is created or destroyed.
func ExampleMissingCRD() {
	err := contract.MissingCRD(schema.GroupKind{Group: "example.com", Kind: "ExampleMachine"})
	fmt.Println(errors.Is(err, contract.ErrNoCRD), apierrors.IsNotFound(err))
	if trouble, ok := errors.AsType[*contract.ResolveError](err); ok {
		fmt.Println(trouble.CRD)
		fmt.Println(trouble.Remedy)
	}
	// Output:
	// true false
	// examplemachines.example.com
	// install the provider of ExampleMachine.example.com, whose CustomResourceDefinition must have this name, or correct the reference
}

// Make the InfraMachine of a Machine from its template.
func ExampleFromTemplate() {
	template := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.example.com/v1", "kind": "ExampleMachineTemplate",
		"metadata": map[string]any{"namespace": "default", "name": "large"},
		"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"tier": "batch"}},
			"spec":     map[string]any{"size": "large"},
		}},
	}}
	made, err := contract.FromTemplate(template, contract.Clone{
		Name: "workers-7f3a", Namespace: "default", ClusterName: "demo",
		Labels: map[string]string{contract.SetNameLabel: contract.LabelValue("workers")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	raw, _ := json.MarshalIndent(made, "", "  ")
	fmt.Println(string(raw))
	// Output:
	// {
	//   "apiVersion": "infrastructure.example.com/v1",
	//   "kind": "ExampleMachine",
	//   "metadata": {
	//     "annotations": {
	//       "cluster.x-k8s.io/cloned-from-groupkind": "ExampleMachineTemplate.infrastructure.example.com",
	//       "cluster.x-k8s.io/cloned-from-name": "large"
	//     },
	//     "labels": {
	//       "cluster.x-k8s.io/cluster-name": "demo",
	//       "cluster.x-k8s.io/set-name": "workers",
	//       "tier": "batch"
	//     },
	//     "name": "workers-7f3a",
	//     "namespace": "default"
	//   },
	//   "spec": {
	//     "size": "large"
	//   }
	// }
}

// Names may be longer than a label value; MustFormatValue of Cluster API gives the same values.
func ExampleLabelValue() {
	fmt.Println(contract.LabelValue("workers"))
	fmt.Println(contract.LabelValue("machines-of-a-team-that-likes-long-names-and-has-many-of-them-too"))
	// Output:
	// workers
	// hash_RxOySw_z
}
