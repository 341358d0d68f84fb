package machine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

func testKind() contract.Kind {
	return contract.Unstructured(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"},
		contract.MachineV1Beta2())
}

func TestLabelsThatObjectsFillAreBounded(t *testing.T) {
	var values labelValues
	long := strings.Repeat("x", maxLabelLength+1)
	for value, want := range map[string]string{"": "none", "Running": "Running", long: "other", "\xff": "other"} {
		require.Equal(t, want, values.admit(value))
	}
	counts := map[string]int{"Running": 2, "": 3, long: 1, "\xff": 1}
	for i := range 100 {
		counts[fmt.Sprintf("Phase%03d", i)] = 1
	}
	sums := values.sum(counts)
	total := 0
	for _, n := range sums {
		total += n
	}
	require.Equal(t, 107, total, "nothing is lost")
	require.Len(t, sums, maxLabelValues+1)
	require.Equal(t, 2, sums["Running"])
	require.Equal(t, 1, sums["Phase000"], "those that find room are the first by name")
	require.Equal(t, 102-maxLabelValues+2, sums["other"])
	require.Equal(t, 0, values.sum(nil)["Running"], "what was seen once stays, at zero")
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

func TestASteadyPassIsObservedWithoutAllocations(t *testing.T) {
	ctx, r := t.Context(), &Reconciler{}
	for name, o := range map[string]*Metrics{"nil": nil, "metrics": NewMetrics(MetricsOptions{})} {
		require.Zero(t, testing.AllocsPerRun(100, func() { o.begin(ctx, r) }), name)
	}
}
