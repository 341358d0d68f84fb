package machine

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestWhatIsRememberedOfAMachineEndsWithIt(t *testing.T) {
	r := testReconciler(testKind(), Ports{}, Options{})
	key := types.NamespacedName{Namespace: "default", Name: "m1"}
	of := r.memory.Of(key, "")
	if r.memory.Of(key, "") != of {
		t.Error("nothing is remembered")
	}
	r.Forget(key)
	if r.memory.Of(key, "") == of {
		t.Error("something is remembered")
	}
}

func TestAMachineThatALoopForgetsIsNotDrainedAnyMore(t *testing.T) {
	r := testReconciler(testKind(), Ports{}, Options{})
	key, released := types.NamespacedName{Namespace: "default", Name: "m1"}, 0
	r.memory.Of(key, "").watch(watchedNode{name: "n", release: func() { released++ }})
	r.Forget(key)
	r.Forget(key)
	if released != 1 {
		t.Errorf("the drain ended %d times", released)
	}
}
