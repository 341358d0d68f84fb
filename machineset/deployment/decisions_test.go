package deployment

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// A rollout that counted on a Machine that its set has decided to replace would let another one go beside it.
func TestAMachineThatItsSetReplacesDoesNotCountAsAvailable(t *testing.T) {
	t.Parallel()
	state := &contract.MachineSetState{}
	state.UID = "set"
	ledger := scale.Ledger{Set: "set", Next: 3, Replaced: scale.Replacements{Names: []string{"a"}, From: 3, Count: 1, Last: 1}}
	state.Annotations = map[string]string{scale.LedgerAnnotation: ledger.String()}
	one := &set{Child: children.Child[contract.MachineSetState]{State: state, Metadata: &state.Metadata}}
	for _, name := range []string{"a", "b"} {
		m := &contract.MachineState{Conditions: []metav1.Condition{{Type: contract.ConditionAvailable, Status: metav1.ConditionTrue}}}
		m.Key.Name, m.UID = name, types.UID(name)
		one.machines = append(one.machines, machine{State: m, Metadata: &m.Metadata})
	}
	one.count()
	facts := one.facts(nil)
	require.Equal(t, []bool{false, true}, []bool{facts.Machines[0].Available, facts.Machines[1].Available})
	state.Annotations[scale.LedgerAnnotation] = "?" // the set replaces nothing until it is corrected
	one.count()
	require.True(t, one.facts(nil).Machines[0].Available)
}
