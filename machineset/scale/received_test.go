package scale_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestAMachineThatMovesToASetCountsWhenItsReplicasSaySo(t *testing.T) {
	machines := []scale.Machine{{Name: "a"}, {Name: "b", Moved: true}, {Name: "c", Moved: true}}
	set := contract.Metadata{Annotations: map[string]string{}}
	plan := func(desired int) scale.Decision {
		return scale.Plan(scale.Facts{Desired: contract.Some(desired), Machines: scale.ReceivedBy(&set).Counted(machines)})
	}
	require.Equal(t, scale.Decision{}, plan(1), "b and c are not the set's surplus")
	set.Annotations[scale.ReceivedAnnotation] = scale.Received{"b"}.String()
	require.Equal(t, scale.Decision{}, plan(2), "replicas include b")
	require.Equal(t, 1, plan(3).Create, "c is no replacement")
	require.Equal(t, scale.Received{"b"}, scale.ReceivedBy(&set))
	set.Annotations[scale.ReceivedAnnotation] = "whatever"
	require.Equal(t, scale.Decision{}, plan(1))
	require.Len(t, machines, 3)
}
