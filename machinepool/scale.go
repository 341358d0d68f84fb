package machinepool

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/contract"
)

// selector selects the Machines of a pool, as text. Whoever scales by the scale subresource asks for it: the HorizontalPodAutoscaler
// scales nothing whose Scale has none. It is the same whether the provider makes Machines or not.
func selector(pool *contract.MachinePoolState) string {
	set := labels.Set{contract.PoolNameLabel: contract.LabelValue(pool.Key.Name)}
	if pool.ClusterName != "" {
		set[contract.ClusterNameLabel] = pool.ClusterName
	}
	return set.String() // sorted
}

// keepsSelector reports whether pools of a kind have a place for it. Cluster API's have none.
func keepsSelector(kind contract.MachinePoolKind) bool {
	const some = "a=b"
	pool := kind.New()
	var u contract.MachinePoolUpdate
	u.SelectorText = contract.SetTo(some)
	var state contract.MachinePoolState
	return kind.Adapter.Write(pool, u) == nil && kind.Adapter.Read(pool, &state) == nil && state.SelectorText == some
}
