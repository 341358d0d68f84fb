package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine"
)

// A backup is restored while the controllers are paused, and the Machine is deleted before they run again.
func TestAMachineIsDrainedWhoseBackupWasMadeInAnotherDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{machine: atOnce})
	m := w.running([]string{"m"}, 1, 0)[0]
	w.annotate(m, map[string]any{contract.PausedAnnotation: ""})
	w.conditionIs(m, contract.ConditionPaused, contract.ReasonPaused)
	node, hour := string(w.node("m").UID), time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	w.mergeStatus(m, map[string]any{"deletion": map[string]any{"nodeDrainStartTime": hour, "waitForNodeVolumeDetachStartTime": hour}})
	w.annotate(m, map[string]any{
		contract.DeletionAnnotation: `{"deletion":"` + hour + `","node":"` + node + `","stages":{"drain":{"end":"` + hour + `"}}}`,
	})
	w.merge(m, map[string]any{"spec": map[string]any{"deletion": map[string]any{"nodeDrainTimeoutSeconds": 1800}}})
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.annotate(m, map[string]any{contract.PausedAnnotation: nil})
	w.goes(m)
	w.recorded(machine.EventNodeDrained, 1)
	require.Empty(t, w.events(machine.EventDrainFailed), "the limit counts from this deletion")
}
