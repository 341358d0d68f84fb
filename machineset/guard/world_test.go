package guard_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset/guard"
)

func machines() contract.Kind {
	gvk := schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}.WithKind
	return contract.Unstructured(gvk("Machine"), contract.LayoutsOf(contract.V1Beta2).Machine)
}

// world is a store with Machines.
type world struct {
	*testenv.Env

	t    *testing.T
	kind contract.Kind
}

func newWorld(t *testing.T) *world {
	t.Helper()
	o := fake.Options{Kinds: []fake.ServedKind{{GVK: machines().GVK, Status: true}}}
	return &world{Env: testenv.Start(t, o, fake.Loops{}, nil), t: t, kind: machines()}
}

func TestMain(m *testing.M) { testenv.Main(m) }

// gathered returns the values of metrics, by name and labels.
func gathered(t *testing.T, m *guard.Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			key := []string{family.GetName()}
			for _, label := range one.GetLabel() {
				key = append(key, label.GetValue())
			}
			all[strings.Join(key, " ")] = one.GetGauge().GetValue() + one.GetCounter().GetValue()
		}
	}
	return all
}
