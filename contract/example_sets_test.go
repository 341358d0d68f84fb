package contract_test

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// Read both versions of a health check: places and units differ, what they say does not.
func ExampleHealthCheckState() {
	old := map[string]any{
		"maxUnhealthy":        "40%",
		"unhealthyConditions": []any{map[string]any{"type": "Ready", "status": "False", "timeout": "5m"}},
	}
	current := map[string]any{
		"remediation": map[string]any{"triggerIf": map[string]any{"unhealthyLessThanOrEqualTo": "40%"}},
		"checks": map[string]any{
			"unhealthyNodeConditions": []any{map[string]any{"type": "Ready", "status": "False", "timeoutSeconds": int64(300)}},
		},
	}
	show := func(version string, layout *contract.HealthCheckLayout, spec map[string]any) {
		kind := contract.Unstructured(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: version, Kind: "MachineHealthCheck"}, layout)
		var check contract.HealthCheckState
		err := kind.Adapter.Read(&unstructured.Unstructured{Object: map[string]any{"spec": spec}}, &check)
		limit, _ := check.MaxUnhealthy.Get()
		fmt.Println(version, check.UnhealthyNodeConditions, limit.String(), err)
	}
	show("v1beta1", contract.HealthCheckV1Beta1(), old)
	show("v1beta2", contract.HealthCheckV1Beta2(), current)
	// Output:
	// v1beta1 [{Ready False 5m0s}] 40% <nil>
	// v1beta2 [{Ready False 5m0s}] 40% <nil>
}

// Write what was counted, and nothing else changes.
func ExampleMachineSetUpdate() {
	kind := contract.Unstructured(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineSet"}, contract.MachineSetV1Beta2())
	set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(3)}}}

	var update contract.MachineSetUpdate
	update.ObservedReplicas, update.ReadyReplicas = contract.SetTo(int32(3)), contract.SetTo(int32(0))
	err := kind.Adapter.Write(set, update)
	raw, _ := json.Marshal(set.Object)
	fmt.Println(err, string(raw))

	var state contract.MachineSetState
	err = kind.Adapter.Read(set, &state)
	_, known := state.AvailableReplicas.Get()
	fmt.Println(err, state.ReadyReplicas.Or(-1), known)
	// Output:
	// <nil> {"spec":{"replicas":3},"status":{"readyReplicas":0,"replicas":3}}
	// <nil> 0 false
}
