package machinepool

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/contract"
)

// selector returns the selector of a pool's Machines, as text. The scale subresource returns it: the HorizontalPodAutoscaler does not
// scale a Scale without a selector. It is the same whether the provider creates Machines or not.
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
