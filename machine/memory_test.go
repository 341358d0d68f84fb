package machine

import (
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestWhatIsRememberedOfAMachineEndsWithIt(t *testing.T) {
	m := newMemory(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	key := types.NamespacedName{Name: "m"}
	m.told[key], m.deletions[key] = telling{}, deletionMemory{}
	m.held[key], m.unread[key], m.lost[key], m.notKept[key] = watchedNode{}, time.Unix(1000, 0), lostObject{}, notKeptWrite{}
	remembers := func(want int) {
		t.Helper()
		all := reflect.ValueOf(m).Elem()
		for i := range all.NumField() {
			if field := all.Field(i); field.Kind() == reflect.Map && field.Len() != want {
				t.Errorf("%s has %d entries, want %d", all.Type().Field(i).Name, field.Len(), want)
			}
		}
	}
	remembers(1) // of each kind: fill a new map above
	m.forget(key)
	remembers(0)
}

func TestAMachineThatALoopForgetsIsNotDrainedAnyMore(t *testing.T) {
	r := testReconciler(testKind(), Ports{}, Options{StatusDelay: time.Minute})
	key, released := types.NamespacedName{Namespace: "default", Name: "m1"}, 0
	r.memory.watchNode(key, watchedNode{name: "n", release: func() { released++ }})
	delayed(t, r)
	r.Forget(key)
	r.Forget(key)
	if released != 1 || r.frame.Waiting() != 0 {
		t.Errorf("the drain ended %d times, and %d statuses wait", released, r.frame.Waiting())
	}
}
