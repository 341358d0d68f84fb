package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine"
)

func TestAMachineThatLivesForgetsTheDeletionThatItsBackupWasMadeIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{machine: atOnce})
	m := w.running([]string{"m"}, 1, 0)[0]
	node, hour := string(w.node("m").UID), time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	w.mergeStatus(m, map[string]any{"deletion": map[string]any{"nodeDrainStartTime": hour, "waitForNodeVolumeDetachStartTime": hour}})
	records := map[string]any{
		contract.DrainedAnnotation: node, contract.VolumesDetachedAnnotation: node, contract.PreDrainStartedAnnotation: hour,
		contract.PreTerminateStartedAnnotation: hour, machine.NodeDeletionStartedAnnotation: hour,
	}
	w.annotate(m, records)
	w.eventually("the records to go", func() string {
		fresh := w.get(m)
		for key := range records {
			if _, found := fresh.GetAnnotations()[key]; found {
				return "there still is " + key
			}
		}
		if startOf(fresh, "nodeDrainStartTime")+startOf(fresh, "waitForNodeVolumeDetachStartTime") != "" {
			return "there still are starts in the status"
		}
		return ""
	})
	w.isQuiet()
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	w.recorded(machine.EventNodeDrained, 1)
	require.Empty(t, w.events(machine.EventDrainFailed))
}
