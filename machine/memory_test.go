package machine

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestWhatIsRememberedOfAMachineEndsWithIt(t *testing.T) {
	r := testReconciler(testKind(), Ports{}, Options{StatusDelay: time.Minute})
	key := types.NamespacedName{Namespace: "default", Name: "m1"}
	delayed(t, r)
	if r.memory.Known(key) == nil || r.frame.Waiting() != 1 {
		t.Error("nothing is remembered")
	}
	r.Forget(key)
	if r.memory.Known(key) != nil || r.frame.Waiting() != 0 {
		t.Error("something is remembered")
	}
}

func TestAMachineThatALoopForgetsIsNotDrainedAnyMore(t *testing.T) {
	r := testReconciler(testKind(), Ports{}, Options{StatusDelay: time.Minute})
	key, released := types.NamespacedName{Namespace: "default", Name: "m1"}, 0
	r.memory.Of(key, "").watch(watchedNode{name: "n", release: func() { released++ }})
	delayed(t, r)
	r.Forget(key)
	r.Forget(key)
	if released != 1 || r.frame.Waiting() != 0 {
		t.Errorf("the drain ended %d times, and %d statuses wait", released, r.frame.Waiting())
	}
}
