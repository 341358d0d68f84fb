package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

func testKind() contract.Kind {
	return contract.Unstructured(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"},
		contract.LayoutsOf(contract.V1Beta2).Machine)
}

func TestTheProviderIsTheInfrastructureOrTheSchemeOfTheProviderID(t *testing.T) {
	infrastructure := contract.MachineState{
		MachineSpec: contract.MachineSpec{Infrastructure: contract.Ref{Kind: "AWSMachine", Name: "m1"}, ProviderID: "aws:///eu-1/i-1"}}
	require.Equal(t, "AWSMachine", providerOf(&infrastructure))
	class := contract.MachineState{
		MachineSpec: contract.MachineSpec{Provider: contract.ProviderSpec{Class: contract.Ref{Kind: "MachineClass", Name: "c1"}},
			ProviderID: "aws:///eu-1/i-1"}}
	require.Equal(t, "aws", providerOf(&class))
	oracle := contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "ocid1.instance.oc1.phx.abc"}}
	require.Empty(t, providerOf(&oracle), "it would name an object")
}
