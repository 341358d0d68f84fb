package contract_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// A group of machines counts as provisioned at the place that the contract's page names, and at the one that Cluster API
// reads.
func ExampleInfraMachinePoolLayout_Read() {
	pool := &unstructured.Unstructured{Object: map[string]any{
		"kind": "ExampleMachinePool", "metadata": map[string]any{"namespace": "default", "name": "workers"},
		"spec": map[string]any{"providerIDList": []any{"example://eu/1", "example://eu/2"}},
	}}
	layout := contract.LayoutsOf(contract.V1Beta2).InfraMachinePool
	var state contract.InfraMachinePoolState
	for _, status := range []map[string]any{
		{"replicas": int64(2)},
		{"replicas": int64(2), "ready": true},
		{"replicas": int64(2), "initialization": map[string]any{"provisioned": true}},
	} {
		pool.Object["status"] = status
		err := layout.Read(pool, &state)
		fmt.Println(state.Provisioned, state.ProviderIDList, state.Replicas.Or(-1), err)
	}
	// Output:
	// false [example://eu/1 example://eu/2] 2 <nil>
	// true [example://eu/1 example://eu/2] 2 <nil>
	// true [example://eu/1 example://eu/2] 2 <nil>
}

// A value that is not due yet holds nothing up: it is absent, and Unreadable says why.
func ExampleInfraMachineState_unreadable() {
	machine := &unstructured.Unstructured{Object: map[string]any{
		"kind": "ExampleMachine", "metadata": map[string]any{"name": "worker-1"},
		"spec":   map[string]any{"providerID": nil},
		"status": map[string]any{"initialization": map[string]any{"provisioned": false}},
	}}
	layout := contract.LayoutsOf(contract.V1Beta2).InfraMachine
	var state contract.InfraMachineState
	fmt.Println(layout.Read(machine, &state), "/", state.Unreadable)

	machine.Object["status"] = map[string]any{"initialization": map[string]any{"provisioned": true}}
	fmt.Println(layout.Read(machine, &state))
	// Output:
	// <nil> / spec.providerID: want string, found null
	// ExampleMachine worker-1 breaks contract v1beta2: spec.providerID: want string, found null
}
