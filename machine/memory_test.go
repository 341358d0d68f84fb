package machine

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/fake"
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

// A backup that is restored during a deletion brings referenced objects back, with the UIDs that they had.
func TestAReferencedObjectThatWasRestoredInADeletionIsAskedToGoAgain(t *testing.T) {
	s := &Scope{memory: &recollection{}}
	at := func(version string) external.Object {
		object := fake.BootstrapConfig(contract.V1Beta2, "config")
		object.SetUID("c")
		object.SetResourceVersion(version)
		return external.Object{Presence: external.Present, Object: object}
	}
	if s.isGoing(at("9")) {
		t.Error("an object that was not asked to go is going")
	}
	s.memory.setAskedAs(at("9").Object)
	for version, want := range map[string]bool{"8": true, "9": true, "10": false} {
		if s.isGoing(at(version)) != want {
			t.Errorf("at %s it is going: %t", version, !want)
		}
	}
}
