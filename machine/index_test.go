package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

func TestWhatAMachineIsFoundBy(t *testing.T) {
	t.Parallel()
	state := &contract.MachineState{Node: contract.NodeRef{Name: "n", UID: "u"}}
	state.UID = "u1"
	state.Key, state.ClusterName, state.ProviderID = types.NamespacedName{Namespace: "ns", Name: "m"}, "c", "p://1"
	state.Infrastructure = contract.Ref{Group: "infra", Kind: "Machine", Name: "i"}
	state.Bootstrap = contract.Ref{Group: "boot", Kind: "Config", Name: "m"}
	want := []string{
		"cluster:ns/c", "crd:machines.infra", "ref:machines.infra/i", "crd:configs.boot", "ref:configs.boot/m", "token:u1", "id:p://1",
		"node:ns/c/n",
	}
	require.ElementsMatch(t, want, indexKeys(state, types.NamespacedName{Namespace: "ns", Name: "c"}, noderef.Rules{}))
	state.Deleting = time.Unix(1, 0)
	want[len(want)-1] = "node://n"
	want = append(want, "deleting")
	require.ElementsMatch(t, want, indexKeys(state, types.NamespacedName{}, noderef.Rules{}))
	state.ProviderID = ""
	want = slices.Delete(want, 6, 7)
	require.ElementsMatch(t, want, indexKeys(state, types.NamespacedName{}, noderef.Rules{}))
}
