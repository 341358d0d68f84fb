package machine

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

func TestTheIndexHoldsNothingThatIsNamedLikeTheMachine(t *testing.T) {
	t.Parallel()
	workload := types.NamespacedName{Namespace: "ns", Name: "c"}
	for name, c := range map[string]struct {
		infra, node string
		cluster     types.NamespacedName
		want        []string
	}{
		"all of one name": {"m", "m", workload, []string{"cluster:ns/c", "crd:machines.infra", "crd:configs.boot", "id:p://1"}},
		"another infrastructure name": {"i", "m", workload,
			[]string{"cluster:ns/c", "crd:machines.infra", "ref:machines.infra/i", "crd:configs.boot", "id:p://1"}},
		"another Node name": {"m", "worker-m", workload,
			[]string{"cluster:ns/c", "crd:machines.infra", "crd:configs.boot", "id:p://1", "node:ns/c/worker-m"}},
		"a Node of the cluster of all Machines is found from no namespace": {"m", "m", types.NamespacedName{},
			[]string{"cluster:ns/c", "crd:machines.infra", "crd:configs.boot", "id:p://1", "node://m"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := &contract.MachineState{Node: contract.NodeRef{Name: c.node, UID: "u"}}
			state.Key, state.ClusterName, state.ProviderID = types.NamespacedName{Namespace: "ns", Name: "m"}, "c", "p://1"
			state.Infrastructure = contract.Ref{Group: "infra", Kind: "Machine", Name: c.infra}
			state.Bootstrap = contract.Ref{Group: "boot", Kind: "Config", Name: "m"}
			got := withoutOwn(indexKeys(state, c.cluster, noderef.Rules{}), state.Key)
			require.ElementsMatch(t, c.want, got, cmp.Diff(c.want, got))
			for _, key := range indexKeys(state, c.cluster, noderef.Rules{}) {
				name, has := ownName(key, "ns")
				require.NotEqual(t, has && name == "m", slices.Contains(got, key), "%s is found in one way", key)
			}
		})
	}
}
