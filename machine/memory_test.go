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

func TestAMachineThatALoopForgetsIsNotDrainedAnyMore(t *testing.T) {
	r := &Reconciler{memory: newMemory(clocktesting.NewFakePassiveClock(time.Unix(1000, 0))), dependents: newDependents()}
	key, released := types.NamespacedName{Namespace: "default", Name: "m1"}, 0
	r.memory.watchNode(key, watchedNode{name: "n", release: func() { released++ }})
	r.memory.setSettling(key, settling{Fingerprint: 1})
	r.Forget(key)
	r.Forget(key)
	if released != 1 || r.memory.waiting() != 0 {
		t.Errorf("the drain ended %d times, and %d statuses wait", released, r.memory.waiting())
	}
}
