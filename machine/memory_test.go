package machine

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestWhatIsRememberedOfAMachineEndsWithIt(t *testing.T) {
	m := newMemory(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	key := types.NamespacedName{Name: "m"}
	m.setSettling(key, settling{Fingerprint: 1})
	m.forget(key)
	if m.waiting() != 0 {
		t.Error("what was pending for a Machine that is gone is remembered")
	}
}
