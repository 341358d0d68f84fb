package remediation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake/testenv"
	"github.com/machinist-dev/machinist/machine/remediation"
)

// The first pass over a large fleet writes to each Machine, and one that fails meanwhile waits for its end.
func TestMachinesAreWrittenToAtTheSameTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		w.machine(name, "zone-"+name)
	}
	w.becomes("c", corev1.ConditionUnknown, time.Hour)
	w.ports = func(p *remediation.Ports) { p.Client = testenv.Meet(p.Client, "Machine", 8) }
	w.Create(w.check("workers"))
	w.run(remediation.Options{})
	w.says(healthy, "a", "b", "d", "e", "f", "g", "h")
	w.says(marked, "c")
	w.told(remediation.ReasonMachineMarkedUnhealthy, 1)
}

func TestMachinesAreWrittenToOneByOneWhereThatIsWanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"c", "a", "b"} {
		w.machine(name, "zone-"+name)
	}
	var meeting *testenv.Meeting
	w.ports = func(p *remediation.Ports) {
		meeting = testenv.Meet(p.Client, "Machine", 1)
		p.Client = meeting
	}
	w.Create(w.check("workers"))
	w.run(remediation.Options{Parallel: 1})
	w.says(healthy, "a", "b", "c")
	require.Equal(t, []string{"a", "b", "c"}, meeting.Names())
}
