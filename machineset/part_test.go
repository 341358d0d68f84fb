package machineset

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
)

func TestAPartLosesWhatTheCacheHasYetToShow(t *testing.T) {
	t.Parallel()
	set := &contract.MachineSetState{}
	set.Key.Name, set.Template.Labels = "workers", map[string]string{"pool": "workers"}
	before := children.Given{Labels: map[string]string{"pool": "workers", "new": "2"}, Annotations: []string{"other"}}
	have := &contract.Metadata{Labels: machineLabels(set)}
	require.True(t, changesNothing(metadataOf(have, before, set)))
	u := partChanges(have, before, set)
	require.Len(t, u.Labels, 1)
	require.Equal(t, map[string]any{"new": nil}, merged(u.Labels))
	require.Equal(t, map[string]any{"other": nil}, merged(u.Annotations))
	require.True(t, changesNothing(partChanges(have, children.Given{Labels: machineLabels(set)}, set)))
}
