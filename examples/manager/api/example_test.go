package api_test

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
)

// A Machine is read into plain values, and an update is written back in the fields that Cluster API has for it.
func ExampleGroup_Machine() {
	machine := &api.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "worker-1"},
		Spec:       api.MachineSpec{ClusterName: "c1", InfrastructureRef: api.Reference{APIGroup: "g", Kind: "K", Name: "worker-1"}},
	}
	var state contract.MachineState
	fmt.Println(api.ClusterAPI.Machine().Adapter.Read(machine, &state), state.Key, state.Infrastructure.Kind, state.BootstrapReady.Found())

	err := api.ClusterAPI.Machine().Adapter.Write(machine, contract.MachineUpdate{
		Node: contract.SetTo(contract.NodeRef{Name: "node-1", UID: "8d1f"}), InfrastructureReady: contract.SetTo(true),
	})
	fmt.Println(err, machine.Annotations)
	status, err := json.Marshal(machine.Status)
	fmt.Println(err, string(status))
	// Output:
	// <nil> default/worker-1 K false
	// <nil> map[machinist.dev/node-uid:8d1f]
	// <nil> {"initialization":{"infrastructureProvisioned":true},"nodeRef":{"name":"node-1"}}
}
