package objects_test

import (
	"fmt"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake/objects"
)

// A unit test of what reads the object of any provider: the same instance in each contract version.
func ExampleInfraMachine() {
	for _, v := range []contract.Version{contract.V1Alpha3, contract.V1Beta1, contract.V1Beta2} {
		infra := objects.InfraMachine(v, "worker-1", objects.Provisioned("aws:///eu-1a/i-1"),
			objects.Addresses(contract.Address{Type: "InternalIP", Address: "10.0.0.1"}))
		var state contract.InfraMachineState
		err := contract.LayoutsOf(v).InfraMachine.Read(infra, &state)
		fmt.Println(infra.GetAPIVersion(), state.Provisioned, state.ProviderID, state.Addresses, err)
	}
	// Output:
	// infrastructure.cluster.x-k8s.io/v1alpha3 true aws:///eu-1a/i-1 [{InternalIP 10.0.0.1}] <nil>
	// infrastructure.cluster.x-k8s.io/v1beta1 true aws:///eu-1a/i-1 [{InternalIP 10.0.0.1}] <nil>
	// infrastructure.cluster.x-k8s.io/v1beta2 true aws:///eu-1a/i-1 [{InternalIP 10.0.0.1}] <nil>
}

// A Machine, its infrastructure and its Node, that belong together.
func ExampleRunning() {
	node := objects.Node("ip-10-0-0-1", "aws:///eu-1a/i-1")
	machine := objects.Machine("worker-1", objects.Speaking(contract.V1Beta1), objects.Running(node))
	var state contract.MachineState
	err := contract.Unstructured(objects.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine).Adapter.Read(machine, &state)
	fmt.Println(state.Infrastructure.Kind, state.ProviderID, state.Node.Name, state.Phase, err)
	// Output: LegacyFakeMachine aws:///eu-1a/i-1 ip-10-0-0-1 Running <nil>
}

// The states of a BootstrapConfig and of a pool.
func ExampleBootstrapConfig() {
	v := contract.V1Beta2
	for _, option := range []objects.Option{
		objects.WithLabels(nil), objects.DataSecret("worker-1-data"), objects.Failed("InvalidConfig", "files[0] has no path"),
	} {
		var state contract.BootstrapConfigState
		err := contract.LayoutsOf(v).BootstrapConfig.Read(objects.BootstrapConfig(v, "worker-1", option), &state)
		fmt.Printf("%v %q %q %v\n", state.DataSecretCreated, state.DataSecretName.Or(""), state.FailureReason, err)
	}
	var pool contract.InfraMachinePoolState
	instances := objects.Instances("aws:///i-1", "aws:///i-2")
	err := contract.LayoutsOf(v).InfraMachinePool.Read(objects.InfraMachinePool(v, "workers", instances), &pool)
	fmt.Println(pool.Provisioned, pool.ProviderIDList, err)
	// Output:
	// false "" "" <nil>
	// true "worker-1-data" "" <nil>
	// false "" "InvalidConfig" <nil>
	// true [aws:///i-1 aws:///i-2] <nil>
}
