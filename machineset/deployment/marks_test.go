package deployment

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/contract"
)

func TestADeploymentAsksForTheMachinesThatItSelectsUnlessItHasOthers(t *testing.T) {
	t.Parallel()
	of := func(pools ...string) *set {
		one := &set{}
		for _, pool := range pools {
			state := &contract.MachineState{}
			state.Labels = map[string]string{"pool": pool}
			one.machines = append(one.machines, machine{State: state, Metadata: state.Common().Metadata})
		}
		return one
	}
	s := &Scope{selector: labels.SelectorFromSet(labels.Set{"pool": "a"}), observed: []*set{of("a"), of("a", "a")}}
	require.Equal(t, "pool=a", s.narrowest().String())
	s.observed = append(s.observed, of("a", "b"))
	require.True(t, s.narrowest().Empty(), "one has the labels of an earlier selector")
}
